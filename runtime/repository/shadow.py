"""Shadow traffic: a version gets copies of requests; what it answers is compared, and dropped.

A copy is taken once its request has been answered, and waits in a short queue for a thread of the
shadow's own. When the queue is full the copy is dropped and counted: the caller neither waits for
a shadow nor hears of it. Requests of sequences and streams are not copied.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from queue import Empty, Full, Queue
from typing import Final, cast

import numpy as np

from ...stdlib.op import Item
from ..engine import Engine
from ..prepared import Prepared
from ..request import Fault, Request, Response
from .shares import SHADOW, dealt, position

MOST: Final = 32
"""Copies that may wait for one shadow."""

_CLOSE = {"rtol": 1e-3, "atol": 1e-5}  # floats of two builds of one model differ in their last bits


@dataclass(frozen=True, slots=True)
class ShadowCounts:
    """`answered` of the `copied` ones did, `different` of those otherwise than the caller's answer
    (floats by more than a thousandth), `failed` did not; `dropped` found the queue full."""

    copied: int = 0
    answered: int = 0
    different: int = 0
    failed: int = 0
    dropped: int = 0


class ShadowTally:
    """Counts of one pipeline in one version; they go on when the version is loaded anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(ShadowCounts.__dataclass_fields__, 0)

    @property
    def counts(self) -> ShadowCounts:
        with self._lock:
            return ShadowCounts(**self._counts)

    def note(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1


class Shadow:
    """One pipeline in one version that answers nobody, and the share of traffic it is shown."""

    def __init__(
        self, engine: Engine, prepared: Prepared, version: str, share: float, tally: ShadowTally
    ) -> None:
        self.version, self.share = version, share
        self._engine, self._prepared, self._tally = engine, prepared, tally
        self._turns = count()
        self._waiting: Queue[tuple[Request, Mapping[str, Item]] | None] = Queue(MOST)
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._shown = 0  # requests that are not answered, copies that wait or run
        self._closed = False
        self._thread: threading.Thread | None = None

    def watches(self, request: Request) -> bool:
        """Whether a request is one of those that it is shown."""
        if request.sequence is not None:
            return False
        where = dealt(next(self._turns)) if request.id == "" else position(request.id, SHADOW)
        return where < self.share

    def show(self, request: Request, outcome: Mapping[str, Item] | Future[Response]) -> None:
        """Take a copy of a request that is answered, or will be."""
        with self._lock:
            self._shown += 1
        if isinstance(outcome, Future):
            outcome.add_done_callback(lambda done: self._show_answered(request, done))
        else:
            self._offer(request, outcome)

    def wait(self) -> None:
        """Wait until nothing that was shown is still to be done."""
        with self._settled:
            self._settled.wait_for(lambda: self._shown == 0)

    def close(self) -> None:
        """Drop what waits and let what runs end."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is None:
            return
        while True:
            try:
                self._waiting.get_nowait()
            except Empty:
                break
            self._finish("dropped")
        self._waiting.put(None)  # nothing else is put any more
        thread.join()

    def _show_answered(self, request: Request, done: Future[Response]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._finish(None)
        else:
            self._offer(request, done.result().outputs)

    def _offer(self, request: Request, answer: Mapping[str, Item]) -> None:
        if not self._queued(request, answer):
            self._finish("dropped")

    def _queued(self, request: Request, answer: Mapping[str, Item]) -> bool:
        with self._lock:
            if self._closed:
                return False
            if self._thread is None:
                name = f"headrace-shadow-{self._prepared.plan.name}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()
            try:
                self._waiting.put_nowait((request, answer))
            except Full:
                return False
        self._tally.note("copied")
        return True

    def _finish(self, what: str | None) -> None:
        """Note what came of something shown."""
        if what is not None:
            self._tally.note(what)
        with self._settled:
            self._shown -= 1
            self._settled.notify_all()

    def _work(self) -> None:
        while (copy := self._waiting.get()) is not None:
            self._finish(self._run(*copy))

    def _run(self, request: Request, answer: Mapping[str, Item]) -> str:
        try:
            found = self._engine.run(
                self._prepared, request.inputs, request.outputs, request=request
            )
        except Fault:
            return "failed"
        if not same_answer(answer, found):
            self._tally.note("different")
        return "answered"


def same_answer(one: Mapping[str, Item], other: Mapping[str, Item]) -> bool:
    """Whether two answers say the same, floats to a thousandth."""
    return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)


def _same(one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        ours, theirs = cast("list[object]", one), cast("list[object]", other)
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return type(one) is type(other) and bool(one == other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind == "f":
        return bool(np.allclose(one, other, equal_nan=True, **_CLOSE))
    return bool(np.array_equal(one, other))
