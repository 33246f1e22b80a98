"""The k greatest elements."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DType, TensorType, Type
from ..constants import axis
from ..dtypes import to_numpy
from ..lowering import integers, require, tensor_type
from ..op import (
    Argument,
    Array,
    Decline,
    Emitter,
    Item,
    Literal,
    Op,
    Operand,
    OpTypeError,
    Param,
    Sample,
)
from ..rules import number, scalar_integer
from ..values import array, integer

KERNELS = frozenset({DType.F32, DType.F64, DType.I32, DType.I64})


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = number(arguments[0], "x", dims)
    place = axis(arguments[2], "axis", found)
    known = scalar_integer(arguments[1], "k", dims)
    size = dims.resolve(found.dims[place])
    if known is not None and (known < 0 or (isinstance(size, int) and known > size)):
        raise OpTypeError("k", f"0 to {size}, the elements that {found} has there, not {known}")
    k: Dim = dims.fresh("k") if known is None else known
    shape = (*found.dims[:place], k, *found.dims[place + 1 :])
    return TensorType(found.dtype, shape), TensorType(DType.I64, shape)


def reference(x: Item, k: "Item | Literal", axis: int) -> tuple[Array, Array]:
    value, count, along = array(x), integer(k), integer(axis)
    size = value.shape[along]
    if not 0 <= count <= size:
        raise ValueError(f"{count} elements are wanted of the {size} in axis {along}")
    key = value
    if value.dtype.kind == "f":
        key = np.where(np.isnan(value), value.dtype.type(np.inf), value)
    # Sorting the reversed axis and reversing the result keeps equal elements in their order.
    backwards = np.argsort(np.flip(key, along), along, kind="stable")
    order = size - 1 - np.flip(backwards, along)
    indices = np.take(order, np.arange(count), along)
    return np.take_along_axis(value, indices, along), indices


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, k, along = operands
    found = tensor_type(x.type)
    require(found.dtype, KERNELS, "TopK")
    if k.tensor is not None:
        raise Decline("a `k` made at run time may differ from row to row")
    place = emit.axis(integer(along.literal), len(found.dims))
    count = integers(emit, [integer(k.literal)])
    value = key = emit.tensor(x)
    if found.dtype.is_float:
        infinity = emit.constant(np.array(np.inf, to_numpy(found.dtype)))
        (key,) = emit.node("Where", [*emit.node("IsNaN", [value]), infinity, value])
    best, chosen = emit.node("TopK", [key, count], outputs=2, axis=place, largest=1, sorted=1)
    if found.dtype.is_float:
        (best,) = emit.node("GatherElements", [value, chosen], axis=place)
    return best, chosen


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.integers(-3, 4, (3, 7)).astype(np.float32)
    nan = x.copy()
    nan[1, 2:5], nan[1, 5], nan[2, 0], nan[2, 3] = np.nan, np.inf, np.inf, np.nan
    return [
        (x, 3),
        (nan, 5),
        (x, 2, 0),
        (x[0], 7),
        (x[0], np.array(2)),
        (x.astype(np.int64), 4),
        (x.astype(np.float64), 1),
        (x.astype(np.int8), 2),
    ]


OP = Op(
    name="nn.topk",
    summary="Gives the k greatest elements along an axis and their indices, the greatest first; "
    "of equal ones the first comes first. NaN counts as infinity.",
    params=(
        Param("x", "A tensor of numbers."),
        Param("k", "How many."),
        Param("axis", "The axis to search.", True, has_default=True, default=-1),
    ),
    results=("values", "indices"),
    types=types,
    reference=reference,
    lowering=lower,
    example="best, ids = nn.topk(p, 5)",
    samples=samples,
)
