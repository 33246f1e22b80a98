"""A pipeline of a server, called as one that is loaded here."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from ..runtime.accept import show_signature
from ..runtime.protocols.models import Model
from ..runtime.protocols.remote import input_tensors, remote_model, results_of
from ..runtime.record import Record, record_type
from ..runtime.request import InSequence
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
        return self.ask(inputs, outputs, timeout, None)

    def sequence(self, id: int | str | None = None) -> "RemoteSequence":
        """Return a new sequence of requests, for a pipeline that keeps state.

        `id` is its name, None for one that no other sequence has.
        """
        return RemoteSequence(self, uuid4().hex if id is None else id)

    def ask(
        self,
        inputs: Mapping[str, Any],  # Any: values that the signature checks
        outputs: Sequence[str] | None,
        timeout: float | None,
        sequence: InSequence | None,
    ) -> Record:
        """Ask the server, for a sequence if one is given."""
        tensors = input_tensors(self.model, inputs, self.signature)
        answer = self._wire.infer(self.__name__, tensors, outputs, timeout, sequence)
        results = results_of(self.model, answer)
        names = list(results) if outputs is None else list(outputs)
        return record_type(self.__name__, names)(results[name] for name in names)


class RemoteSequence:
    """The requests of one sequence; send the next when the one before has been answered.

    The first that succeeds begins with the initial state. `last` ends it; one that is not ended is
    forgotten by the server when it has been silent for the pipeline's `idle`.
    """

    def __init__(self, pipeline: RemotePipeline, id: int | str) -> None:
        self.id = id
        self._pipeline = pipeline
        self._begun = False

    def __call__(
        self,
        *,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        **inputs: Any,  # Any: values that the signature checks
    ) -> Record:
        """Ask the server, as the pipeline itself would."""
        point = InSequence(self.id, start=not self._begun)
        answer = self._pipeline.ask(inputs, outputs, timeout, point)
        self._begun = True
        return answer

    def last(
        self,
        *,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        **inputs: Any,  # Any: values that the signature checks
    ) -> Record:
        """Ask the server for the last time; the next call begins anew."""
        point = InSequence(self.id, start=not self._begun, end=True)
        answer = self._pipeline.ask(inputs, outputs, timeout, point)
        self._begun = False
        return answer
