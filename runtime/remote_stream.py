"""Models of other servers that answer any number of times, as two stages.

What begins gives a handle, and what follows gives the next answer for it, or says that there is
none. A thread for each open request reads the answers, at most `ROOM` ahead of who takes them, so
that a server which is faster than its reader is held back by the connection. A request that ends,
for whatever reason, ends its call at the server.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from ..compiler.plan import ModelSegment
from ..dsl.types import DType, TensorType
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array
from .carriers import Answer, Calling, GrpcCarrier, Refused
from .context import Context
from .devices.host import HostDevice
from .instance import ModelStage
from .load_error import OTHER_MODEL, LoadError
from .model_backend import Model, ports
from .remote_peer import Peer, named_alike
from .request import Code
from .rows import Rows
from .session import encoded, hold
from .stage import StageError, StageGone, policy_of

OPEN: Final = "open"
NEXT: Final = "next"

ROOM: Final = 16
"""Answers that wait to be taken."""


class Answers:
    """What a server answers to one request."""

    def __init__(self, peer: Peer, calling: Calling) -> None:
        self.peer, self._calling = peer, calling
        self._changed = threading.Condition()
        self._found: deque[Answer] = deque()
        self._over = False
        self._error: StageError | StageGone | None = None
        self._notify: Callable[[], object] | None = None

    def read(self) -> None:
        """Read all answers; a thread is there for this."""
        error: StageError | StageGone | None = None
        try:
            for answer in self._calling:
                if not self._put(answer):
                    return
        except Refused as refused:
            error = self.peer.failed(refused)
        self._end(error)

    def ready(self, notify: Callable[[], object]) -> bool:
        """Whether `take` would not wait; else `notify` is called when it would not."""
        with self._changed:
            if self._found or self._over:
                return True
            self._notify = notify
            return False

    def take(self, due: float | None) -> Answer | None:
        """Return the next answer, None after the last; raises why there is none."""
        with self._changed:
            while not self._found and not self._over:
                left = None if due is None else due - time.monotonic()
                if left is not None and left <= 0:
                    raise StageGone(Code.DEADLINE, "the deadline has passed")
                self._changed.wait(left)
            if self._found:
                self._changed.notify_all()
                return self._found.popleft()
            if self._error is not None:
                raise self._error
            return None

    def leave(self) -> None:
        """Let go of what is still to come; the call ends at the server."""
        self._calling.cancel()
        self._end(StageGone(Code.UNAVAILABLE, "nobody reads it any more"))

    def _put(self, answer: Answer) -> bool:
        """Take an answer, when there is room for it; whether anybody reads on."""
        with self._changed:
            while len(self._found) >= ROOM and not self._over:
                self._changed.wait()
            if self._over:
                return False
            self._found.append(answer)
            notify = self._tell()
        if notify is not None:
            notify()
        return True

    def _end(self, error: StageError | StageGone | None) -> None:
        with self._changed:
            if self._over:
                return
            self._over, self._error = True, error
            notify = self._tell()
        if notify is not None:
            notify()

    def _tell(self) -> Callable[[], object] | None:
        self._changed.notify_all()
        notify, self._notify = self._notify, None
        return notify


class Handle(np.ndarray[Any, Any]):
    """A number that stands for the answers to a request; they go with the last who has it."""

    answers: Answers


class Beginning:
    """The session of what begins: each request of a model's is a call that is left open."""

    def __init__(self, model: Model) -> None:
        """Raises LoadError where the server's carrier has no streams."""
        address = model.content.decode().removesuffix(f":{OPEN}")
        peer = Peer(address, model.inputs, None)
        if not isinstance(peer.carrier, GrpcCarrier):
            peer.close()
            message = f"{address}: a model answers any number of times over gRPC alone"
            raise LoadError(OTHER_MODEL, message, "give the server's gRPC address: `grpc://...`")
        self._peer, self._carrier = peer, peer.carrier
        self._lock = threading.Lock()
        self._open: dict[Answers, threading.Thread] = {}

    def run_for(self, feeds: Mapping[str, Array], contexts: Sequence[object]) -> list[Array]:
        context = cast("Context", contexts[0])
        asked, timeout, _ = self._peer.request(feeds, [context])
        answers = Answers(self._peer, self._carrier.stream(self._peer.target, asked, timeout))
        thread = threading.Thread(target=self._read, args=(answers,), name="remote stream")
        with self._lock:
            self._open[answers] = thread
        thread.start()
        context.tell_end(answers.leave)
        handle = np.array(0, np.int64).view(Handle)
        handle.answers = answers
        return [handle]

    def close(self) -> None:
        with self._lock:
            left = dict(self._open)
        for answers, thread in left.items():
            answers.leave()
            thread.join()
        self._peer.close()

    def _read(self, answers: Answers) -> None:
        try:
            answers.read()
        finally:
            with self._lock:
                self._open.pop(answers, None)


class NextStage(ModelStage):
    """Waits for the next answer: whether there is one, and its outputs, zeros where not."""

    def __init__(self, segment: ModelSegment, index: int) -> None:
        super().__init__(segment, _NOTHING, HostDevice(), policy_of(segment), index)
        results = segment.signature.results
        self._outputs = ports(segment.output_names, results, segment.output_axes)[1:]

    def ready(self, columns: Sequence[Rows], notify: Callable[[], object]) -> bool:
        """Whether there is something to give; else `notify` is called when there is."""
        return _answers(columns).ready(notify)

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        answers, context = _answers(columns), cast("Context", columns[-1].item(0))
        answer, fields = answers.take(context.deadline), self._segment.signature.results
        if answer is None:
            found = [_blank(cast("TensorType", field.type)) for field in fields[1:]]
        else:
            found = answers.peer.arrays(answer, named_alike(answer, self._outputs))
        outputs = [np.array(answer is not None), *encoded(found, fields[1:])]
        hold(outputs, fields, self._axes)
        if answer is not None:
            self._check([], outputs)
        return [Rows.shared(one, count) for one in outputs]


def require_part(segment: ModelSegment, part: str) -> None:
    """Raise LoadError where a segment is not declared as such a part of a model is."""
    params, results = segment.signature.params, segment.signature.results
    if any(axis is not None for axis in (*segment.input_axes, *segment.output_axes)):
        message = "a request that is answered any number of times is one, and no batch"
        raise LoadError(OTHER_MODEL, message, "add `batch none` behind the signature")
    types = [one.type for one in (results if part == OPEN else (*params, *results[:1]))]
    if types != ([_HANDLE] if part == OPEN else [_HANDLE, _THERE]):
        raise LoadError(
            OTHER_MODEL,
            "what begins gives a handle"
            if part == OPEN
            else "what gives the next answer takes the handle, and first says whether there is one",
            "declare `-> (handle: i64)`"
            if part == OPEN
            else "declare `(handle: i64) -> (there: bool, ...)`, and the model's outputs behind",
        )


def _answers(columns: Sequence[Rows]) -> Answers:
    handle = columns[0].item(0)
    if not isinstance(handle, Handle):
        raise StageError("what it is given was not made by the `:open` of its model")
    return handle.answers


def _blank(kind: TensorType) -> Array:
    shape = tuple(dim if isinstance(dim, int) else 0 for dim in kind.dims)
    if kind.dtype in (DType.STRING, DType.BYTES):
        return np.full(shape, "" if kind.dtype is DType.STRING else b"", object)
    return np.zeros(shape, to_numpy(kind.dtype))


class _Nothing:
    """In place of a session: what only waits has none."""

    def run(self, feeds: object, /) -> Sequence[Array]:
        raise AssertionError(f"{feeds} for no session")

    def close(self) -> None:
        """Nothing is held."""


_NOTHING: Final = _Nothing()
_HANDLE: Final = TensorType(DType.I64, ())
_THERE: Final = TensorType(DType.BOOL, ())
