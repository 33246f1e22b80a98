"""Seeing what happens. In order of control flow:

`recording` is what is written down of one request: spans, runs, values. `watch` binds a pipeline
anew for such a request, so that others pay nothing; `batches` notes who shared a run. `trace` is
what a caller gets, with `sums` of its times and `table` as its text. `observer` decides which
requests of a server are recorded and hands what comes of them to sinks: `perfetto` (a file for
ui.perfetto.dev) and `otel` (OpenTelemetry). `log` is how a server's log lines look.
"""
