"""Calls of stages as those who ask count them: requests, with their rows, times and faults.

A stage counts executions, in which the rows of several requests may meet. The members of an
ensemble are models to their users, who count requests; so where a pipeline is one, its walks are
looked at. A pipeline that is none pays nothing.
"""

import threading
from collections.abc import Mapping
from time import perf_counter

from .flow import Asked, Block, Emission, Fallback, Flow, Fork, Group, Work
from .request import Fault
from .rows import Rows


class StageCalls:
    """What one pipeline has asked of one stage: calls that were answered by their `rows`, how many
    `seconds` they took, and those that failed by their code; `by_outcome` where those are the
    pipeline's own requests that failed there."""

    def __init__(self, pipeline: int, stage: int) -> None:
        self.pipeline, self.stage = pipeline, stage
        self.rows: dict[int, int] = {}
        self.seconds = 0.0
        self.by_outcome = False
        self.failures: dict[str, int] = {}
        self._lock = threading.Lock()

    def answered(self, rows: int, seconds: float) -> None:
        with self._lock:
            self.rows[rows] = self.rows.get(rows, 0) + 1
            self.seconds += seconds

    def failed(self, code: str) -> None:
        if self.by_outcome:
            return
        with self._lock:
            self.failures[code] = self.failures.get(code, 0) + 1


class CountedBlock(Block):
    """A block of which all that is asked is counted, by the number of the stage."""

    __slots__ = ("_counted",)

    def __init__(self, block: Block, calls: Mapping[int, StageCalls]) -> None:
        for name in Block.__slots__:
            setattr(self, name, getattr(block, name))
        self.calls = self.only = None  # what goes through them is not looked at
        self.single = False  # so that the walk is told of the results
        self._counted = calls

    def start(self, arguments: list[Rows], group: Group) -> Flow:
        return counted(super().start(arguments, group), self._counted)


def counted(flow: Flow, calls: Mapping[int, StageCalls]) -> Flow:
    """Return a walk of which the works are counted."""
    try:
        asked = next(flow)
        while True:
            known = calls.get(asked.stage.index) if isinstance(asked, Work) else None
            start = perf_counter()
            try:
                results = yield _with_walks(asked, calls)
            except Exception as error:
                if known is not None and isinstance(error, Fault):
                    known.failed(error.code.value)
                asked = flow.throw(error)
            else:
                if known is not None:
                    known.answered(_rows(asked), perf_counter() - start)
                silent = isinstance(asked, Emission | Fallback)
                asked = next(flow) if silent else flow.send(results)
    except StopIteration as stop:
        return stop.value


def _with_walks(asked: Asked, calls: Mapping[int, StageCalls]) -> Asked:
    if not isinstance(asked, Fork):
        return asked
    return Fork([counted(flow, calls) for flow in asked.flows], asked.group)


def _rows(asked: Asked) -> int:
    return asked.group.count if isinstance(asked, Work) else 0
