"""The seam between a client's pipelines and what carries their requests."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..runtime.protocols.inputs import Given
from ..runtime.protocols.results import WireTensor
from ..runtime.request import InSequence


class Wire(Protocol):
    """A connection to a server. Its methods raise Fault, as an engine would."""

    def config(self, model: str) -> Mapping[str, Any]:  # Any: JSON
        """Return a model's configuration."""
        ...

    def infer(
        self,
        model: str,
        tensors: Sequence[WireTensor],
        outputs: Sequence[str] | None,
        timeout: float | None,
        sequence: InSequence | None = None,
    ) -> list[Given[bytes]]:
        """Return the tensors of the answer. `timeout`, in seconds, goes before the client's."""
        ...

    def close(self) -> None: ...
