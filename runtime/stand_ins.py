"""Rows made up from a signature, to run a model with where no sample is at hand."""

import numpy as np

from ..compiler.plan import OnnxSegment
from ..dsl.types import DType, OptionalType, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array
from .rows import Value
from .shapes import Bindings, evaluate, names
from .stage import StageError


def stand_ins(segment: OnnxSegment, size: int, seed: int = 0) -> list[Value]:
    """Return one row of a model, its named sizes at `size`; the same one for a seed every time.

    Raises StageError for types that no model takes as a tensor.
    """
    kinds = [field.type for field in segment.signature.params]
    bindings: Bindings = dict.fromkeys(names(kinds), size)
    random = np.random.default_rng(seed)
    return [_stand_in(kind, bindings, size, random) for kind in kinds]


def _stand_in(kind: Type, bindings: Bindings, size: int, random: np.random.Generator) -> Value:
    match kind:
        case OptionalType(item=item):
            return _stand_in(item, bindings, size, random)
        case TensorType(dtype=dtype, dims=dims):
            found = (evaluate(dim, bindings) for dim in dims)
            shape = tuple(size if one is None else one for one in found)
            return _filled(dtype, shape, random)
        case _:
            raise StageError(f"a {kind} cannot be made up: give a sample")


def _filled(dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    if dtype is DType.STRING:
        return np.full(shape, "text", object)
    if dtype is DType.BYTES:
        return np.full(shape, b"bytes", object)
    if dtype.is_float:
        return random.standard_normal(shape).astype(to_numpy(dtype))
    return np.ones(shape, to_numpy(dtype))  # an index that is in every table but an empty one's
