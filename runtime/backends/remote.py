"""Models of other servers: `grpc://host:port/model`, `http://host:port/model/version`.

Any server of the Open Inference Protocol: another headrace, Triton, MLServer. The time that is
left, the priority and the id of a request go with it; rows of several requests have the longest
time and the highest priority among them. One that answers any number of times is two stages, of
which `:open` behind its name begins and `:next` gives the next answer (`remote_stream.py`).
"""

from collections.abc import Mapping, Sequence
from typing import cast

from ...compiler.plan import ModelSegment
from ...stdlib.op import Array
from ..backend import Backend, Loading
from ..carriers import Refused
from ..context import Context
from ..division import Share
from ..load_error import LoadError
from ..model_backend import Model, model_backend
from ..remote_peer import Peer
from ..remote_stream import NEXT, OPEN, Beginning, NextStage, require_part
from ..stage import Stage


class RemoteSession:
    """A model of a server, asked by as many threads as there are."""

    def __init__(self, model: Model) -> None:
        self._peer = Peer(model.content.decode(), model.inputs, model.outputs)

    def run_for(self, feeds: Mapping[str, Array], contexts: Sequence[object]) -> list[Array]:
        peer = self._peer
        asked, timeout, outputs = peer.request(feeds, cast("Sequence[Context]", contexts))
        try:
            return peer.arrays(peer.carrier.infer(peer.target, asked, timeout), outputs)
        except Refused as refused:
            raise peer.failed(refused) from refused

    def close(self) -> None:
        self._peer.close()


_WHOLE = model_backend(RemoteSession, ("remote",))
_BEGINNING = model_backend(Beginning, ("remote",))


def open_model(segment: ModelSegment, index: int, share: Share, loading: Loading) -> Stage:
    """Return the stage of a model or of a part of it; raises LoadError."""
    part = loading.blobs[segment.model].decode().rpartition(":")[2]
    if part not in (OPEN, NEXT):
        return _WHOLE.open(segment, index, share, loading)
    try:
        require_part(segment, part)
    except LoadError as error:
        message = f"stage `{segment.name}`, {segment.place}: {error.message}"
        raise LoadError(error.code, message, error.help) from error
    if part == OPEN:
        return _BEGINNING.open(segment, index, share, loading)
    return NextStage(segment, index)


BACKEND = Backend(open_model, ("remote",))
