"""What is written down of one request while it runs.

Every call of a stage that its walk asks for is a Span, from when it was asked for to when its
results were there. In between it has parts of Runs: what a thread did in one go, which may have
held rows of other requests too. Spans of strands that go on at once overlap, a span itself is one
strand's. Values are kept by reference, those in a device's memory as copies on the host.

Written by whatever thread goes on with the request, read when it is over.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, cast

from ...compiler.plan import PipelinePlan, Place
from ..devices.device import View
from ..flow import Group
from ..metrics import StageCell
from ..request import Fault
from ..rows import Rows, Value


@dataclass(frozen=True, slots=True)
class Run:
    """What a thread did for a stage in one go: `executions` of `rows` rows of so many `requests`.
    `start` and `stop` are on the engine's clock; `padded` rows were filled up."""

    stage: str
    start: float
    stop: float
    rows: int
    requests: int
    executions: int
    padded: int
    thread: str
    failed: bool

    @property
    def key(self) -> str:
        """What tells it from all other runs: a thread does one thing at a time."""
        return f"{self.thread}@{self.start:.9f}"


class Stopwatch:
    """Begins a run of a stage; `cell` is where its thread counts what the stage does."""

    __slots__ = ("_before", "_cell", "_clock", "_stage", "_start")

    def __init__(self, stage: str, cell: StageCell, clock: Callable[[], float]) -> None:
        self._stage, self._cell, self._clock = stage, cell, clock
        self._before = cell.executions, cell.padded
        self._start = clock()

    def stop(self, rows: int, requests: int = 1, *, failed: bool = False) -> Run:
        """Return the run, which ends now."""
        executions, padded = self._before
        return Run(
            self._stage,
            self._start,
            self._clock(),
            rows,
            requests,
            self._cell.executions - executions,
            self._cell.padded - padded,
            threading.current_thread().name,
            failed,
        )


class Part(NamedTuple):
    """How many rows of a run were this request's."""

    run: Run
    rows: int


class Span:
    """One call of a stage for `rows` rows, which its walk asked for at `asked`.

    `answered` is None while it is not; `hits` of the rows were found in the stage's cache (None: it
    has none); `copied` bytes went to another device's memory; `fault` is why it has no results.
    """

    __slots__ = ("answered", "asked", "copied", "fault", "hits", "parts", "place", "rows", "stage")

    def __init__(self, stage: str, place: Place, rows: int, asked: float) -> None:
        self.stage, self.place, self.rows, self.asked = stage, place, rows, asked
        self.answered: float | None = None
        self.hits: int | None = None
        self.copied = 0
        self.fault: Fault | None = None
        self.parts: tuple[Part, ...] = ()


class Fell(NamedTuple):
    """Rows of a `try` went to its `else`."""

    place: Place
    rows: int
    at: float


class Kept(NamedTuple):
    """A value as it was made: a column of the rows of a group."""

    name: str
    place: Place
    column: Rows
    group: Group


class Recording:
    """Of one request to a pipeline. `begun` is when it came; where it is `lined` up its walk begins
    later, when it has `started`; `ended` is when its outcome was there, with a `fault` if it
    failed."""

    def __init__(
        self,
        pipeline: PipelinePlan,
        clock: Callable[[], float],
        *,
        values: bool,
        request_id: str = "",
        parent: Mapping[str, str] = MappingProxyType({}),
        over: "Callable[[Recording], object] | None" = None,
    ) -> None:
        """With `values` what every step makes is kept. `parent` is what the caller says of its own
        trace (W3C), `over` is called once when the outcome is there."""
        self.pipeline, self.clock, self.request_id = pipeline, clock, request_id
        self.values, self.parent, self._over = values, parent, over
        self.begun = clock()
        self.lined = False
        self.started: float | None = None
        self.ended: float | None = None
        self.fault: Fault | None = None
        self.spans: list[Span] = []
        self.fell: list[Fell] = []
        self.emitted: list[float] = []
        self.kept: list[Kept] = []
        self._lock = threading.Lock()

    def line_up(self) -> None:
        """Note that the walk is not begun at once."""
        self.lined = True

    def start(self) -> None:
        """Note that the walk begins."""
        self.started = self.clock()

    def ask(self, stage: str, place: Place, rows: int) -> Span:
        """Note that a stage is asked for."""
        span = Span(stage, place, rows, self.clock())
        with self._lock:
            self.spans.append(span)
        return span

    def ran(self, span: Span, run: Run, rows: int) -> None:
        """Note that rows of a span were in a run."""
        with self._lock:
            span.parts = (*span.parts, Part(run, rows))

    def answer(self, span: Span, fault: Fault | None = None) -> None:
        """Note that a span has come to its end."""
        span.fault, span.answered = fault, self.clock()

    def fall(self, place: Place, rows: int) -> None:
        """Note that rows of a `try` go to its `else`."""
        with self._lock:
            self.fell.append(Fell(place, rows, self.clock()))

    def emit(self) -> None:
        """Note that a response of a stream is sent."""
        self.emitted.append(self.clock())

    def keep(self, name: str, place: Place, column: Rows, group: Group) -> None:
        """Keep a value, if values are wanted and it has a name."""
        if self.values and name:
            kept = Kept(name, place, column.map_tensors(_on_host), group)
            with self._lock:
                self.kept.append(kept)

    def end(self, fault: Fault | None = None) -> None:
        """Note the outcome; what is told later is not noted."""
        with self._lock:
            if self.ended is not None:
                return
            self.ended, self.fault = self.clock(), fault
        if self._over is not None:
            self._over(self)


def _on_host(value: Value) -> Value:
    if isinstance(value, View):
        return value.buffer.device.download(value, "a trace", value.ready.stream)
    if isinstance(value, list):
        return cast("Value", [_on_host(one) for one in value])
    return value
