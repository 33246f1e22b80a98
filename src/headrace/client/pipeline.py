"""A pipeline of a server, called as one that is loaded here."""

from collections.abc import Sequence
from typing import Any

from ..runtime.accept import show_signature
from ..runtime.protocols.models import Model
from ..runtime.protocols.remote import input_tensors, remote_model, results_of
from ..runtime.record import Record, record_type
from .wire import Wire


class RemotePipeline:
    """One pipeline as a function of its inputs."""

    def __init__(self, wire: Wire, name: str) -> None:
        """Ask the server what the pipeline takes and gives."""
        self._wire = wire
        self.model: Model = remote_model(wire.config(name))
        self.__name__ = name
        self.__doc__ = self.signature = show_signature(self.model.pipeline)

    def __call__(
        self,
        *,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        **inputs: Any,  # Any: values that the signature checks
    ) -> Record:
        """Ask the server; raises Fault, and RequestError when the inputs do not fit.

        `timeout` in seconds; `outputs` names the results that are wanted.
        """
        tensors = input_tensors(self.model, inputs, self.signature)
        answer = self._wire.infer(self.__name__, tensors, outputs, timeout)
        results = results_of(self.model, answer)
        names = list(results) if outputs is None else list(outputs)
        return record_type(self.__name__, names)(results[name] for name in names)
