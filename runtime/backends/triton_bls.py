"""Models of the tritonserver that this process belongs to, asked through its Python backend.

A plan that was exported to Triton (`headrace export triton`) has such a note where a model was:
which of the server's it is, and in what form that takes rows. The time that is left goes along.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...dsl.types import DType
from ...stdlib.op import Array
from ..context import Context
from ..load_error import NO_RUNTIME, LoadError
from ..model_backend import Model, Port, model_backend
from ..stage import StageError


class BlsSession:
    """A model of the same server, asked by as many threads as there are."""

    def __init__(self, model: Model) -> None:
        try:
            import triton_python_backend_utils as pb  # type: ignore[import-not-found] of Triton
        except ImportError as error:
            raise LoadError(
                NO_RUNTIME,
                "the plan was exported to Triton, and this process is no part of a tritonserver",
                "run the plan that was exported, or serve the repository with a tritonserver",
            ) from error
        self._pb: Any = pb  # Any: it has no types
        note = json.loads(model.content)
        self._name, rows = note["model"], note["form"] == "rows"
        self._inputs = [(port, _is_wider(port, rows)) for port in model.inputs]
        self._outputs = [(port, _is_wider(port, rows)) for port in model.outputs]

    def run_for(self, feeds: Mapping[str, Array], contexts: Sequence[object]) -> list[Array]:
        timeout = _timeout(cast("Sequence[Context]", contexts))
        tensors = [
            self._pb.Tensor(port.name, _encoded(feeds[port.name], wider=wider))
            for port, wider in self._inputs
            if port.name in feeds
        ]
        answer = self._pb.InferenceRequest(
            model_name=self._name,
            inputs=tensors,
            requested_output_names=[port.name for port, _ in self._outputs],
            timeout=timeout,
        ).exec()
        if answer.has_error():
            raise StageError(f"Triton's model `{self._name}`: {answer.error().message()}")
        return [self._array(answer, port, wider=wider) for port, wider in self._outputs]

    def close(self) -> None:
        """Nothing is held."""

    def _array(self, answer: Any, port: Port, *, wider: bool) -> Array:  # Any: Triton's own
        tensor = self._pb.get_output_tensor_by_name(answer, port.name)
        if tensor is None:
            raise StageError(f"Triton's model `{self._name}` did not answer with `{port.name}`")
        array = tensor.as_numpy()
        if port.dtype is DType.STRING:
            text = [one.decode("utf-8", "replace") for one in array.ravel().tolist()]
            array = np.array([*text, None], object)[:-1].reshape(array.shape)
        return array[..., 0] if wider else array


def _is_wider(port: Port, rows: bool) -> bool:
    """Whether a tensor has an axis more there, as Triton has no scalars."""
    return len(port.dims or ()) == int(rows)


def _timeout(contexts: Sequence[Context]) -> int:
    """Return the longest time that is left to a row, in microseconds; 0 where one has no limit."""
    left = [one.remaining() for one in contexts]
    if None in left or not left:
        return 0
    return max(1, round(max(cast("list[float]", left)) * 1e6))


def _encoded(array: Array, *, wider: bool) -> Array:
    array = array[..., None] if wider else array
    if array.dtype.kind not in "OUS":
        return np.ascontiguousarray(array)
    text = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
    return np.array([*text, None], object)[:-1].reshape(array.shape)


BACKEND = model_backend(BlsSession, ("triton_bls",))
