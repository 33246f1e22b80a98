"""Which requests a model has been given and not answered yet, by their numbers. Nothing here
waits."""

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ..context import Context
from ..request import Code
from ..stage import StageError, StageGone
from .asked import CODES, Answer, Asked, Run
from .worker.triton_python_backend_utils.batches import Group
from .worker.triton_python_backend_utils.contents import Malformed

_NONE: Final[Mapping[int, Any]] = MappingProxyType({})
_NO: Final[frozenset[int]] = frozenset()


class OpenRequests:
    """Those of one process: the run that it executes, and requests that are answered otherwise than
    by what `execute` returns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 1
        self._run: Run | None = None
        self._open: dict[int, Asked] = {}

    def begin(self, run: Run) -> int:
        """Take a run; return the number of its first request, which the others' follow."""
        with self._lock:
            run.first, self._next = self._next, self._next + len(run.contexts)
            self._run = run
            for index, one in run.asked.items():
                self._open[run.first + index] = one
            return run.first

    def end(
        self,
        first: int,
        groups: list[Group],
        more: Mapping[str, Any] | None,  # Any: JSON
        model: str,
    ) -> None:
        """Note what `execute` has given, of which `more` says what is no response of outputs alone;
        raises Malformed."""
        with self._lock:
            run = self._run
            if run is None or run.first != first:
                raise Malformed("a batch that was not asked for")
        if more is None:
            self._end_all(run, groups)
            return
        if "error" in more:
            text = f"Failed to process the request(s) for model '{model}', message: "
            self.fail(run, StageError(text + more["error"], detail=more["trace"]))
            return
        others = {int(at): told and error_of(*told) for at, told in more.get("others", {}).items()}
        answer = Answer(
            groups,
            others,
            frozenset(map(int, more.get("again", ()))),
            {int(at): str(told) for at, told in more.get("parameters", {}).items()},
        )
        count = _members(groups) + len(others)
        if count != len(run.contexts) or not all(0 <= one < count for one in others):
            raise Malformed(f"{count} responses to {len(run.contexts)} requests")
        with self._lock:
            self._run = None
            for index, error in others.items():
                if error is not None or index in answer.again:
                    self._open.pop(first + index, None)
                elif index not in run.asked:  # it is going to be answered later
                    run.asked[index] = self._open[first + index] = Asked(run.contexts[index], [])
            for index in run.asked.keys() - others.keys():
                self._open.pop(first + index, None)
        run.answer = answer

    def _end_all(self, run: Run, groups: list[Group]) -> None:
        """Note that `execute` has given each request outputs."""
        count = len(groups[0].counts) if len(groups) == 1 else _members(groups)
        if count != len(run.contexts):
            raise Malformed(f"{count} responses to {len(run.contexts)} requests")
        with self._lock:
            self._run = None
            for index in run.asked:
                self._open.pop(run.first + index, None)
        run.answer = Answer(groups, _NONE, _NO, _NONE)

    def find(self, number: int) -> Asked | None:
        """Return a request that is not over, to be answered by itself."""
        with self._lock:
            one, run = self._open.get(number), self._run
            if one is None and run is not None:
                index = number - run.first
                if 0 <= index < len(run.contexts) and index not in run.asked:
                    one = run.asked[index] = self._open[number] = Asked(run.contexts[index], [])
            return one

    def is_open(self, number: int) -> bool:
        """Whether a request is not over."""
        with self._lock:
            run = self._run
            here = run is not None and 0 <= number - run.first < len(run.contexts)
            return here or number in self._open

    def contexts(self, number: int | None) -> list[Context]:
        """Return whose a request is that is not over, or those of the run."""
        with self._lock:
            run, one = self._run, self._open.get(number or 0)
            if one is not None:
                return [one.context]
            if run is None:
                return []
            index = -1 if number is None else number - run.first
            if 0 <= index < len(run.contexts):
                return [run.contexts[index]]
            return list(run.contexts)

    def forget(self, number: int) -> None:
        """Note that a request has had its last response."""
        with self._lock:
            self._open.pop(number, None)

    def drop(self, run: Run) -> None:
        """Forget a run that nobody was given."""
        with self._lock:
            if self._run is run:
                self._run = None
            for index in range(len(run.contexts)):
                self._open.pop(run.first + index, None)

    def fail(self, run: Run, error: StageError | StageGone) -> None:
        """End all requests of a run."""
        self.drop(run)
        for one in run.asked.values():
            one.responses.end(error)
        run.error = error

    def fail_all(self, error: StageGone) -> None:
        """End all there are: the process has."""
        with self._lock:
            left, self._open = list(self._open.values()), {}
            run, self._run = self._run, None
        for one in left:
            one.responses.end(error)
        if run is not None:
            run.error = error


def _members(groups: list[Group]) -> int:
    return sum(len(group.counts) for group in groups)


def error_of(message: object, code: int) -> StageError:
    """Return a TritonError as what a stage raises."""
    kind = CODES.get(code, Code.FAILED)
    return StageError(str(message), code=kind, detail="the model has answered so")
