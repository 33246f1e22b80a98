"""Precision as a rewrite of a model's file: `precision = int8`, `fp16` or `bf16` in a schedule.

In order of control flow: `rewrite` goes through the graphs of a source before any pass sees them,
`choose` says how a model may be rewritten, or why it cannot be, by what there is to calibrate with
(`calibration`, whose file `calibration_file` writes and reads); `attempt` does it and looks how far
off it is. `with_onnxruntime` is all that needs a library: it readies a model, watches the ranges of
its tensors, quantises it, runs it. `halve` makes floats of two bytes, by what `kept` says of ops,
in `opsets` that have them, or of weights alone (`half_weights`). `report` compares, and tells.
"""
