"""Rows made up from a signature, to run a stage with where no sample is at hand."""

from typing import cast

import numpy as np

from ..compiler.plan import Check, ModelSegment, PythonSegment
from ..dsl.types import DimArith, DType, ListType, OptionalType, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array, Item
from .context import Context
from .rows import Value
from .shapes import Bindings, evaluate, failed, names
from .stage import StageError

_MOST = 4096
"""The largest size that is tried for dimensions that are only named."""


def smallest(segment: ModelSegment | PythonSegment) -> int:
    """Return the smallest size of all named dimensions at which what the stage asks of sizes holds,
    and no size of its inputs that is computed from them is less than one."""
    signature = segment.signature
    found = names(field.type for field in (*signature.params, *signature.results))
    computed = [dim for field in signature.params for dim in _computed(field.type)]
    for size in range(1, _MOST + 1):
        bindings: Bindings = dict.fromkeys(found, size)
        sizes = (evaluate(dim, bindings) for dim in computed)
        if any(one is not None and one < 1 for one in sizes):
            continue
        if not any(_fails(check, bindings) for check in (*segment.checks, *segment.where)):
            return size
    return 1  # its run will say what does not hold


def _computed(kind: Type) -> list[DimArith]:
    match kind:
        case TensorType(dims=dims):
            return [dim for dim in dims if isinstance(dim, DimArith)]
        case ListType(item=item) | OptionalType(item=item):
            return _computed(item)
        case _:
            return []


def _fails(check: Check, bindings: Bindings) -> bool:
    try:
        return failed(check, bindings) is not None
    except KeyError:  # of a size that is known when it has run
        return False


def stand_ins(segment: ModelSegment | PythonSegment, size: int, seed: int = 0) -> list[Value]:
    """Return one row of a stage, its named sizes at `size`; the same one for a seed every time. One
    of an engine has the sizes for which that is quickest.

    Raises StageError for types that cannot be made up.
    """
    kinds = [field.type for field in segment.signature.params]
    bindings: Bindings = dict.fromkeys(names(kinds), size)
    random = np.random.default_rng(seed)
    if isinstance(segment, ModelSegment) and segment.ranges:
        return [_usual(segment, number, random) for number in range(len(kinds))]
    row = [_stand_in(kind, bindings, size, random) for kind in kinds]
    if segment.told:
        row.append(cast("Value", Context()))  # nobody has asked for it
    return row


def _usual(segment: ModelSegment, number: int, random: np.random.Generator) -> Array:
    """Return an input of an engine, without its batch axis."""
    shape, axis = segment.ranges[number].usual, segment.input_axes[number]
    kind = cast("TensorType", segment.signature.params[number].type)  # engines take no others
    return _filled(kind.dtype, shape if axis is None else shape[:axis] + shape[axis + 1 :], random)


def _stand_in(kind: Type, bindings: Bindings, size: int, random: np.random.Generator) -> Value:
    match kind:
        case OptionalType(item=item):
            return _stand_in(item, bindings, size, random)
        case TensorType(dtype=dtype, dims=dims):
            found = (evaluate(dim, bindings) for dim in dims)
            shape = tuple(size if one is None else one for one in found)
            if min(shape, default=0) < 0:
                raise StageError(f"a {kind} cannot be made up of sizes of {size}: give a sample")
            return _filled(dtype, shape, random)
        case ListType(item=item):
            return [cast("Item", _stand_in(item, bindings, size, random))]  # on the host
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
