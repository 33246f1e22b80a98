"""Requests that a model has been given, until each has had its last response."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ...stdlib.op import Array
from ..answers import Answers
from ..context import Context
from ..request import Code, InSequence
from ..stage import StageError, StageGone
from ..units import Holding
from .worker.triton_python_backend_utils.batches import Group
from .worker.triton_python_backend_utils.link import ROOM, ROOM_BYTES

CODES: Final = {
    0: Code.INVALID,
    1: Code.FAILED,
    2: Code.NOT_FOUND,
    3: Code.INVALID,
    4: Code.UNAVAILABLE,
    5: Code.UNSUPPORTED,
    6: Code.INVALID,
    7: Code.CANCELLED,
}
"""What the kinds of a TritonError are here; unknown ones are statuses of 400 there too."""

Outputs = Mapping[str, tuple[str, Array]]
"""Types and values by name."""


class Given(NamedTuple):
    """A response: its outputs, and as JSON what parameters it has beside them."""

    outputs: Outputs
    parameters: str = ""


class Responses:
    """What is answered to one request; the model hears how much of it was taken."""

    def __init__(self) -> None:
        self._answers = Answers[tuple[Given, int]]()
        self._room: Callable[[int | None], object] | None = None
        self._lock = threading.Lock()  # for what was taken
        self._taken = self._size = 0

    def attend(self, room: Callable[[int | None], object]) -> None:
        """Let `room` be told how many have been taken, for which the model waits that has too many
        untaken; None when all that comes is let go."""
        self._room = room

    def ready(self, notify: Callable[[], object]) -> bool:
        """Whether `take` would not wait; else `notify` is called when it would not."""
        return self._answers.ready(notify)

    def put(self, given: Given, size: int = 0) -> None:
        """Take in one response, of so many bytes."""
        if not self._answers.put((given, size)) and self._room is not None:
            self._room(None)  # it was told before it had anything to wait with

    def end(self, error: StageError | StageGone | None = None) -> None:
        """Note that there is no other; the first reason counts."""
        self._answers.end(error)

    def leave(self) -> None:
        """Note that nobody reads any more: what comes is let go."""
        if self._answers.end(StageError("the request is over")) and self._room is not None:
            self._room(None)

    def take(self, due: float | None = None) -> Given | None:
        """Return the next response, None after the last; raises why there is none."""
        found = self._answers.take(due)
        if found is None:
            return None
        given, size = found
        with self._lock:
            taken = self._count(size)
        if taken and self._room is not None:
            self._room(taken)
        return given

    def _count(self, size: int) -> int:
        """Note that one was taken; return how many the model is to hear of, none yet mostly."""
        self._taken, self._size = self._taken + 1, self._size + size
        if self._answers.over or (self._taken < ROOM // 2 and self._size < ROOM_BYTES // 2):
            return 0
        taken, self._taken, self._size = self._taken, 0, 0
        return taken


@dataclass(slots=True, eq=False)
class Asked:
    """One request, whose responses may come before or after `execute` has returned; `inputs` are
    those of its rows, `sequence` is that which it is in where nobody else is, and `holding` what it
    has of resources until then."""

    context: Context
    inputs: list[tuple[str, str, Any]]  # Any: arrays
    responses: Responses = field(default_factory=Responses)
    sequence: InSequence | None = None
    holding: Holding | None = None

    def leave(self) -> None:
        """Give back what it holds while the model executes it."""
        if self.holding is not None:
            self.holding.leave()


@dataclass(slots=True, eq=False)
class Answer:
    """What `execute` has given: in `groups` the responses of all but `others`, which are the errors
    of some, None for those that are answered otherwise, and `again` those that it wants to be given
    once more. `parameters` are what responses have beside outputs."""

    groups: list[Group]
    others: Mapping[int, StageError | None]
    again: frozenset[int]
    parameters: Mapping[int, str]


@dataclass(slots=True, eq=False)
class Run:
    """Requests that `execute` is called with: whose they are, in which `sequences` where that is
    no matter of theirs, and in `groups` their inputs; their numbers follow `first`. It is over with
    an `answer` or an `error`."""

    contexts: list[Context]
    groups: list[Group]
    sequences: list[InSequence | None] | None = None
    first: int = 0
    answer: Answer | None = None
    error: StageError | StageGone | None = None
    asked: dict[int, Asked] = field(default_factory=dict[int, Asked])

    @property
    def over(self) -> bool:
        return self.answer is not None or self.error is not None


def told_of(run: Run) -> list[dict[str, Any] | None]:  # Any: JSON
    """Return what a model is told of each request beside its inputs, None where that is nothing."""
    if run.sequences is None:
        return [_of(one, one.sequence) for one in run.contexts]
    pairs = zip(run.contexts, run.sequences, strict=True)
    return [_of(one, own or one.sequence) for one, own in pairs]


def _of(context: Context, sequence: InSequence | None) -> dict[str, Any] | None:
    left, parameters = context.remaining(), context.parameters
    if not (context.id or parameters or context.priority or sequence or left is not None):
        return None
    trace = {name: parameters[name] for name in ("traceparent",) if name in parameters}
    return {
        "id": context.id,
        "correlation": 0 if sequence is None else sequence.id,
        "flags": 0 if sequence is None else sequence.start | sequence.end << 1,
        "timeout": 0 if left is None else max(1, round(left * 1e6)),
        "priority": context.priority,
        "parameters": json.dumps(dict(parameters), separators=(",", ":")) if parameters else "",
        "trace": json.dumps(trace) if trace else "",
    }
