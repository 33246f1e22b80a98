"""Models of other servers that answer any number of times, as two stages.

What begins gives a handle, and what follows gives the next answer for it, or says that there is
none. A thread for each open request reads the answers, at most `ROOM` ahead of who takes them, so
that a server which is faster than its reader is held back by the connection. A request that ends,
for whatever reason, ends its call at the server.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import numpy as np

from ..compiler.plan import ModelSegment
from ..dsl.types import DType, TensorType
from ..stdlib.op import Array
from .answers import Answers, answers_of, blank, handle_of
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


class OpenCall:
    """What a server answers to one request, as it is read."""

    def __init__(self, peer: Peer, calling: Calling) -> None:
        self.peer, self.answers = peer, Answers[Answer]()
        self._calling = calling

    def read(self) -> None:
        """Read all answers; a thread is there for this."""
        error: StageError | StageGone | None = None
        try:
            for answer in self._calling:
                if not self.answers.put(answer, ROOM):
                    return
        except Refused as refused:
            error = self.peer.failed(refused)
        self.answers.end(error)

    def leave(self) -> None:
        """Let go of what is still to come; the call ends at the server."""
        self._calling.cancel()
        self.answers.end(StageGone(Code.UNAVAILABLE, "nobody reads it any more"))


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
        self._open: dict[OpenCall, threading.Thread] = {}

    def run_for(self, feeds: Mapping[str, Array], contexts: Sequence[object]) -> list[Array]:
        context = cast("Context", contexts[0])
        asked, timeout, _ = self._peer.request(feeds, [context])
        call = OpenCall(self._peer, self._carrier.stream(self._peer.target, asked, timeout))
        thread = threading.Thread(target=self._read, args=(call,), name="remote stream")
        with self._lock:
            self._open[call] = thread
        thread.start()
        context.tell_end(call.leave)
        return [handle_of(call)]

    def close(self) -> None:
        with self._lock:
            left = dict(self._open)
        for call, thread in left.items():
            call.leave()
            thread.join()
        self._peer.close()

    def _read(self, call: OpenCall) -> None:
        try:
            call.read()
        finally:
            with self._lock:
                self._open.pop(call, None)


class NextStage(ModelStage):
    """Waits for the next answer: whether there is one, and its outputs, zeros where not."""

    def __init__(self, segment: ModelSegment, index: int) -> None:
        super().__init__(segment, _NOTHING, HostDevice(), policy_of(segment), index)
        results = segment.signature.results
        self._outputs = ports(segment.output_names, results, segment.output_axes)[1:]

    def ready(self, columns: Sequence[Rows], notify: Callable[[], object]) -> bool:
        """Whether there is something to give; else `notify` is called when there is."""
        return _call(columns).answers.ready(notify)

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        call, context = _call(columns), cast("Context", columns[-1].item(0))
        answer, fields = call.answers.take(context.deadline), self._segment.signature.results
        if answer is None:
            found = [blank(cast("TensorType", field.type)) for field in fields[1:]]
        else:
            found = call.peer.arrays(answer, named_alike(answer, self._outputs))
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


def _call(columns: Sequence[Rows]) -> OpenCall:
    return answers_of(columns, OpenCall, f":{OPEN}")


class _Nothing:
    """In place of a session: what only waits has none."""

    def run(self, feeds: object, /) -> Sequence[Array]:
        raise AssertionError(f"{feeds} for no session")

    def close(self) -> None:
        """Nothing is held."""


_NOTHING: Final = _Nothing()
_HANDLE: Final = TensorType(DType.I64, ())
_THERE: Final = TensorType(DType.BOOL, ())
