"""Recordings as trace events of Chrome's JSON format, for ui.perfetto.dev and chrome://tracing.

There is a track for each request, with its spans, those that overlap in lanes of their own, and one
for each thread, with what it ran. An arrow leads from a span to each run that held rows of it; a
run that several requests shared is there once.
"""

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, TypeAlias

from .recording import Recording, Run, Span
from .sums import until

Event: TypeAlias = Mapping[str, Any]  # Any: JSON

REQUESTS: Final = 1
WORKERS: Final = 2
_LANES: Final = 64
_REMEMBERED: Final = 4096  # runs that may still be shared


def save(path: "str | os.PathLike[str]", recordings: Iterable[Recording]) -> None:
    """Write recordings as one file."""
    writer = Writer()
    events = [event for recording in recordings for event in writer.events(recording)]
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
    Path(path).write_text(text, encoding="utf-8")


class Writer:
    """Makes events of one recording after the other."""

    def __init__(self) -> None:
        self._requests = 0
        self._arrows = 0
        self._threads: dict[str, int] = {}
        self._runs: OrderedDict[str, None] = OrderedDict()
        self._named: set[int] = set()

    def events(self, recording: Recording) -> Iterator[Event]:
        """Yield the events of a recording that is over."""
        self._requests += 1
        yield from self._processes()
        pipeline, end = recording.pipeline.name, recording.ended or recording.clock()
        first = self._requests * _LANES
        title = f"{pipeline} {recording.request_id or self._requests}"
        yield _named(REQUESTS, first, "thread_name", title)
        arguments: dict[str, Any] = {"request": recording.request_id}  # Any: JSON
        if recording.fault is not None:
            arguments["fault"] = f"{recording.fault.code.value}: {recording.fault}"
        yield _slice(REQUESTS, first, pipeline, recording.begun, end, arguments)
        if recording.lined:
            started = recording.started if recording.started is not None else end
            yield _slice(REQUESTS, first, "in line", recording.begun, started, {})
        spans = sorted(recording.spans, key=lambda span: span.asked)
        for span, lane in zip(spans, _lanes(spans, recording), strict=True):
            if lane:
                yield _named(REQUESTS, first + lane, "thread_name", f"{title}, at once")
            yield from self._span(span, first + lane, until(span, recording))
        for at in recording.emitted:
            yield _instant(first, "emit", at)
        for fell in recording.fell:
            yield _instant(first, f"else of the try at {fell.place}", fell.at)

    def _span(self, span: Span, track: int, end: float) -> Iterator[Event]:
        arguments: dict[str, Any] = {"line": str(span.place), "rows": span.rows}  # Any: JSON
        if span.hits is not None:
            arguments["from cache"] = span.hits
        if span.copied:
            arguments["copied bytes"] = span.copied
        if span.fault is not None:
            arguments["fault"] = f"{span.fault.code.value}: {span.fault}"
        yield _slice(REQUESTS, track, span.stage, span.asked, end, arguments)
        for run, rows in span.parts:
            thread = self._thread(run.thread)
            if thread not in self._named:
                self._named.add(thread)
                yield _named(WORKERS, thread, "thread_name", run.thread)
            if run.key not in self._runs:
                self._remember(run)
                yield _run(run, thread)
            self._arrows += 1
            leaves = min(max(span.asked, run.start), end)
            yield _arrow("s", REQUESTS, track, self._arrows, leaves, rows)
            yield _arrow("f", WORKERS, thread, self._arrows, run.start, rows)

    def _remember(self, run: Run) -> None:
        self._runs[run.key] = None
        if len(self._runs) > _REMEMBERED:
            self._runs.popitem(last=False)

    def _thread(self, name: str) -> int:
        return self._threads.setdefault(name, len(self._threads) + 1)

    def _processes(self) -> Iterator[Event]:
        if self._requests == 1:
            yield _named(REQUESTS, 0, "process_name", "requests")
            yield _named(WORKERS, 0, "process_name", "workers")


class TraceFile:
    """A file that grows by a recording at a time, and ends at `most` bytes: what comes then is
    counted in `dropped`, and not written. It can be opened at any time, as the format asks for no
    closing bracket."""

    def __init__(self, path: "str | os.PathLike[str]", most: int = 1 << 28) -> None:
        self._lock = threading.Lock()
        self._writer = Writer()
        self._most, self._written, self.dropped = most, 0, 0
        opened = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 `close` closes it
        self._file: TextIOWrapper | None = opened
        self._file.write("[\n")

    def take(self, recording: Recording) -> None:
        """Write a recording that is over."""
        with self._lock:
            if self._file is None or self._written >= self._most:
                self.dropped += 1
                return
            lines = [json.dumps(event) for event in self._writer.events(recording)]
            text = "".join(f"{line},\n" for line in lines)
            self._written += len(text)
            self._file.write(text)
            self._file.flush()

    def close(self) -> None:
        """End the file, as strict readers of JSON want it."""
        with self._lock:
            if self._file is not None:
                self._file.write("{}]\n")
                self._file.close()
                self._file = None


def _lanes(spans: Sequence[Span], recording: Recording) -> list[int]:
    """Return a lane for each span, so that no two in one overlap."""
    ends: list[float] = []
    lanes: list[int] = []
    for span in spans:
        free = (i for i, end in enumerate(ends) if end <= span.asked)
        lane = next(free, len(ends))
        if lane == len(ends):
            ends.append(0.0)
        ends[lane] = until(span, recording)
        lanes.append(min(lane, _LANES - 1))
    return lanes


def _run(run: Run, thread: int) -> Event:
    name = run.stage if run.requests == 1 else f"{run.stage} ({run.requests} requests)"
    arguments = {
        "rows": run.rows,
        "requests": run.requests,
        "executions": run.executions,
        "rows padded": run.padded,
        "failed": run.failed,
    }
    return _slice(WORKERS, thread, name, run.start, run.stop, arguments)


# Any: JSON
def _slice(
    process: int, track: int, name: str, start: float, stop: float, arguments: Mapping[str, Any]
) -> Event:
    return {
        "ph": "X",
        "pid": process,
        "tid": track,
        "name": name,
        "cat": "headrace",
        "ts": _microseconds(start),
        "dur": max(0.0, _microseconds(stop) - _microseconds(start)),
        "args": arguments,
    }


def _instant(track: int, name: str, at: float) -> Event:
    return {
        "ph": "i",
        "s": "t",
        "pid": REQUESTS,
        "tid": track,
        "name": name,
        "cat": "headrace",
        "ts": _microseconds(at),
    }


def _arrow(kind: str, process: int, track: int, number: int, at: float, rows: int) -> Event:
    return {
        "ph": kind,
        **({"bp": "e"} if kind == "f" else {}),
        "pid": process,
        "tid": track,
        "name": "batch",
        "cat": "batch",
        "id": number,
        "ts": _microseconds(at),
        "args": {"rows": rows},
    }


def _named(process: int, track: int, kind: str, name: str) -> Event:
    return {"ph": "M", "pid": process, "tid": track, "name": kind, "args": {"name": name}}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)
