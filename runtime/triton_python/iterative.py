"""Requests that a model schedules anew (`iterative_sequence`): each is a sequence of its own.

The model is told so as a tritonserver tells it: at first that it starts, then that it goes on, and
each time by which number it is known.
"""

import itertools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ...stdlib.op import Array
from ..request import InSequence
from .asked import Asked
from .config import Config
from .worker.triton_python_backend_utils.contents import DTYPES

_VALUES: Final = (
    ("fp32_false_true", "FP32"),
    ("int32_false_true", "INT32"),
    ("bool_false_true", "BOOL"),
)


class Iterations:
    """The sequences of one stage, and the inputs that `config` has for telling of them; `most` rows
    of them run together, None where each request runs alone."""

    def __init__(self, config: Config) -> None:
        self._controls: list[Config] = config["sequence_batching"].get("control_input") or []
        self._shape = (1, 1) if config.get("max_batch_size") else (1,)
        self.most = _most(config)
        self._numbers = itertools.count(1)

    def begin(self, one: Asked, sequence: InSequence | None = None) -> None:
        """Let a request begin a sequence, or go on in one."""
        if sequence is None:
            sequence = InSequence(next(self._numbers), start=True)
        one.sequence = sequence
        one.inputs = [*one.inputs, *self._told(sequence)]

    def follow(self, one: Asked) -> None:
        """Let it go on in its sequence."""
        one.sequence = following(one)
        told = {name: (kind, array) for name, kind, array in self._told(one.sequence)}
        one.inputs = [(name, *told.get(name, (kind, array))) for name, kind, array in one.inputs]

    def _told(self, sequence: InSequence) -> Iterator[tuple[str, str, Array]]:
        for tensor in self._controls:
            for control in tensor["control"]:
                kind, value = _value(control, sequence)
                yield tensor["name"], kind, np.full(self._shape, value, DTYPES.get(kind, object))


def following(one: Asked) -> InSequence:
    """Return what a request is in its sequence from the second time on."""
    if one.sequence is None:
        raise AssertionError("it has not begun")
    return InSequence(one.sequence.id)


def iterations_of(config: Config) -> Iterations | None:
    """Return what tells of them, None where a model schedules nothing anew."""
    said = config.get("sequence_batching") or {}
    return Iterations(config) if said.get("iterative_sequence") else None


def _most(config: Config) -> int | None:
    oldest = config["sequence_batching"].get("oldest") or {}
    rows = int(config.get("max_batch_size") or 0)
    candidates = int(oldest.get("max_candidate_sequences") or 0)
    return min(rows, candidates or rows) or None


def _value(control: Config, sequence: InSequence) -> tuple[str, Any]:  # Any: of any scalar
    """Return the type and value of a control input."""
    if control["kind"] == "CONTROL_SEQUENCE_CORRID":
        kind = str(control["data_type"]).removeprefix("TYPE_")
        return ("BYTES", str(sequence.id).encode()) if kind == "STRING" else (kind, sequence.id)
    told = {"CONTROL_SEQUENCE_START": sequence.start, "CONTROL_SEQUENCE_READY": True}
    values, kind = next((control[key], kind) for key, kind in _VALUES if control.get(key))
    return kind, values[told.get(control["kind"], False)]
