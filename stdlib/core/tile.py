"""Copies of a tensor side by side, and along axes of size 1."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DimArith, DType, TensorType, Type
from ..lowering import MOVABLE, aligned, require, tensor_type
from ..lowering import integers as row
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
from ..rules import sizes, tensor
from ..values import array, integers

REPEATABLE = MOVABLE - {DType.BF16}


def tile_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    counts = counted(arguments[1], "counts", dims)
    if len(counts) != len(found.dims):
        raise OpTypeError("counts", f"{len(found.dims)} counts, one for each axis of {found}")
    result = [
        dims.resolve(DimArith("*", count, dim))
        for count, dim in zip(counts, found.dims, strict=True)
    ]
    return (TensorType(found.dtype, tuple(result)),)


def counted(argument: Argument, name: str, dims: Dims) -> tuple[Dim, ...]:
    found = sizes(argument, name, dims)
    for size in found:
        if isinstance(size, int) and size < 0:
            raise OpTypeError(name, f"at least 0, not {size}")
    return found


def tile(x: Item, counts: "Item | Literal") -> Array:
    times = integers(counts)
    if any(count < 0 for count in times):
        raise ValueError(f"a tensor cannot be repeated {list(times)} times")
    return np.tile(array(x), times)


def lower_tile(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, counts = operands
    require(tensor_type(x.type).dtype, REPEATABLE, "Tile")
    if counts.tensor is not None:
        raise Decline("counts made at run time may differ from row to row")
    batch = (1,) if x.batched else ()
    whole = (*batch, *integers(counts.literal))
    if not whole:
        return emit.node("Identity", [emit.tensor(x)])
    return emit.node("Tile", [emit.tensor(x), row(emit, whole)])


def broadcast_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    wanted = counted(arguments[1], "shape", dims)
    if len(wanted) < len(found.dims):
        raise OpTypeError("shape", f"at least {len(found.dims)} sizes, one an axis of {found}")
    for dim, size in zip(reversed(found.dims), reversed(wanted), strict=False):
        actual = dims.resolve(dim)
        if isinstance(actual, int) and isinstance(size, int) and actual not in (1, size):
            raise OpTypeError("shape", f"{actual} where {found} has it and no 1, not {size}")
    return (TensorType(found.dtype, wanted),)


def broadcast(x: Item, shape: "Item | Literal") -> Array:
    # NumPy's own result shares memory among elements.
    return np.broadcast_to(array(x), integers(shape)).copy()


def lower_broadcast(
    emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
) -> tuple[str, ...]:
    x, shape = operands
    found = tensor_type(x.type)
    require(found.dtype, REPEATABLE, "Expand")
    if shape.tensor is not None:
        raise Decline("a shape made at run time may differ from row to row")
    wanted = integers(shape.literal)
    if any(size == 1 for size in wanted) and not all(isinstance(dim, int) for dim in found.dims):
        raise Decline("Expand keeps a size where 1 is wanted")
    tensor = aligned(emit, x, len(tensor_type(results[0]).dims))
    batch = (1,) if x.batched else ()
    return emit.node("Expand", [tensor, row(emit, (*batch, *wanted))])


def tile_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3)).astype(np.float32)
    return [
        (x, (2, 1)),
        (x, (1, 0)),
        (x[0], 3),
        (x > 0, (2, 2)),
        (x, np.array([1, 2])),
        (np.array(["a", "b"], object), 2),
        (x[0, 0], ()),
    ]


def broadcast_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 1)).astype(np.float32)
    return [
        (x, (2, 3)),
        (x, (4, 2, 3)),
        (x[0, 0], (2, 2)),
        (x, (2, 0)),
        (x > 0, np.array([2, 5])),
        (np.array(["a"], object), 2),
        (x[:1], (3, 1)),
    ]


OPS = (
    Op(
        name="core.tile",
        summary="Puts copies of a tensor side by side along its axes.",
        params=(
            Param("x", "A tensor."),
            Param("counts", "How many copies, one count an axis; literal or made at run time."),
        ),
        results=("y",),
        types=tile_types,
        reference=tile,
        lowering=lower_tile,
        example="y = tile(x, [2, 1])",
        samples=tile_samples,
    ),
    Op(
        name="core.broadcast_to",
        summary="Repeats a tensor along its axes of size 1, and along new axes in front.",
        params=(
            Param("x", "A tensor."),
            Param("shape", "The sizes wanted, literal or made at run time."),
        ),
        results=("y",),
        types=broadcast_types,
        reference=broadcast,
        lowering=lower_broadcast,
        example="y = broadcast_to(a, [2, 3])",
        samples=broadcast_samples,
    ),
)
