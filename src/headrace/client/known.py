"""What a client knows of a pipeline, as its server has told it."""

from collections.abc import Mapping
from typing import Any

from ..asked import OPTIONS
from ..runtime.accept import show_signature
from ..runtime.protocols.inputs import Given
from ..runtime.protocols.remote import Remote, remote_pipeline
from ..runtime.protocols.signature import version_in
from ..runtime.record import Record, record_type

_KEPT = 32  # types of results for different `outputs`


class Known:
    """`served` is the version, empty where it is not told."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:  # Any: JSON
        self.remote, self.served = Remote(remote_pipeline(config)), version_in(config)
        self.plan = self.remote.pipeline
        self.signature = show_signature(self.plan)
        self.names = tuple(field.name for field in self.plan.results)
        inputs = {parameter.field.name for parameter in self.plan.parameters}
        self.own = inputs.intersection(OPTIONS)
        self._name = name
        self._made = {self.names: record_type(name, self.names)}

    def answer(self, wanted: tuple[str, ...], tensors: list[Given[bytes]], rows: int) -> Record:
        """Return an answer to so many rows; Fault where it is none of this pipeline."""
        return self.record(wanted, self.remote.results(tensors, rows, wanted))

    def record(self, wanted: tuple[str, ...], results: Mapping[str, Any]) -> Record:  # Any: values
        """Return results as callers see them."""
        made = self._made.get(wanted) or record_type(self._name, wanted)
        if len(self._made) < _KEPT:
            self._made[wanted] = made
        return made(results[name] for name in wanted)
