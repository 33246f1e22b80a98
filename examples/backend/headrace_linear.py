"""A backend for linear models in NumPy's `.npz`: `y = x @ weight + bias`.

model score = linear "score.npz" (x: f32[N]) -> (y: f32[M])
"""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np

from headrace.backend import BAD_MODEL, LoadError, Model, Port, model_backend, pair
from headrace.dsl.types import DType

Array = np.ndarray[Any, Any]


class Linear:
    """A model that is loaded. It may be run by several threads at once."""

    def __init__(self, model: Model) -> None:
        try:
            with np.load(BytesIO(model.content), allow_pickle=False) as arrays:
                weight, bias = arrays["weight"], arrays["bias"]
        except (ValueError, KeyError, OSError) as error:
            raise LoadError(BAD_MODEL, f"it is no linear model: {error}") from error
        inside, outside = weight.shape
        pair(model.inputs, [Port("x", DType.F32, (None, inside))], "input")
        pair(model.outputs, [Port("y", DType.F32, (None, outside))], "output")
        self._name, self._weight, self._bias = model.inputs[0].name, weight, bias

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        return [feeds[self._name] @ self._weight + self._bias]

    def close(self) -> None:
        """Nothing to give back."""


BACKEND = model_backend(Linear, ("linear",))
