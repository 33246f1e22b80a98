"""Adding elements of one value around a tensor."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DimArith, DType, TensorType, Type
from ..lowering import integers as row
from ..lowering import require, tensor_type
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
from ..rules import common_dtype, number, sizes, tensor
from ..values import array, integers, same_dtype

KERNELS = frozenset({DType.U8, DType.I8, DType.I32, DType.I64, DType.F32, DType.F64})


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    x, before, after, value = arguments
    found = number(x, "x", dims)
    common_dtype([Argument(found), value], ("x", "value"), dims)
    if tensor(value, "value", dims).dims:
        raise OpTypeError("value", f"one number, not {value.type}")
    counts = [
        amounts(one, name, found, dims) for one, name in ((before, "before"), (after, "after"))
    ]
    result: list[Dim] = []
    for dim, front, back in zip(found.dims, *counts, strict=True):
        whole: Dim = dim
        for amount in (front, back):
            whole = dims.resolve(DimArith("+", whole, amount))
        result.append(whole)
    return (TensorType(found.dtype, tuple(result)),)


def amounts(argument: Argument, name: str, found: TensorType, dims: Dims) -> tuple[Dim, ...]:
    listed = sizes(argument, name, dims)
    if len(listed) != len(found.dims):
        raise OpTypeError(name, f"{len(found.dims)} counts, one for each axis of {found}")
    for count in listed:
        if isinstance(count, int) and count < 0:
            raise OpTypeError(name, f"counts of at least 0, not {count}")
    return listed


def reference(
    x: Item, before: "Item | Literal", after: "Item | Literal", value: "Item | Literal"
) -> Array:
    inner, fill = same_dtype(array(x), value)
    around = list(zip(integers(before), integers(after), strict=True))
    return np.pad(inner, around, constant_values=fill) if around else inner


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, before, after, value = operands
    dtype = tensor_type(x.type).dtype
    require(dtype, KERNELS, "Pad")
    if before.tensor is not None or after.tensor is not None or value.batched:
        raise Decline("counts or values made at run time may differ from row to row")
    batch = (0,) if x.batched else ()
    counts = (*batch, *integers(before.literal), *batch, *integers(after.literal))
    return emit.node("Pad", [emit.tensor(x), row(emit, counts), emit.tensor(value, dtype)])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3)).astype(np.float32)
    return [
        (x, (1, 0), (0, 2)),
        (x, (0, 0), (1, 1), 0.5),
        (x[0], 1, 2, 7),
        (x.astype(np.int64), (0, 1), (0, 1), -1),
        (x.astype(np.uint8), (1, 1), (1, 1), 255),
        (x, np.array([1, 0]), np.array([0, 1])),
        (x, (1, 0), (0, 2), np.float32(3)),
    ]


OP = Op(
    name="core.pad",
    summary="Adds elements of one value before and after the others, in each axis.",
    params=(
        Param("x", "A tensor of numbers."),
        Param("before", "How many to add in front, one count an axis."),
        Param("after", "How many to add at the end, one count an axis."),
        Param("value", "The value to add.", has_default=True, default=0),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    example="y = pad(x, [0, 0], [0, 3])",
    samples=samples,
)
