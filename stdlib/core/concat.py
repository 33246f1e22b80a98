"""Joining tensors or lists along an axis they have."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DimArith, ListType, TensorType, Type
from ..constants import axis, constant_integer
from ..lowering import (
    MOVABLE,
    batched_like,
    first_batched,
    operand_dtype,
    rank,
    require,
    tensor_type,
)
from ..op import Argument, Emitter, Item, Op, Operand, OpTypeError, Param, Sample
from ..rules import common_dtype, common_item, same_size, tensor
from ..values import integer, same_dtype


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    along, *parts = arguments
    if not parts:
        raise OpTypeError("parts", "at least one tensor")
    lists = [part.type for part in parts if isinstance(part.type, ListType) and not part.known]
    if len(lists) == len(parts):
        return (joined_lists(along, lists),)
    names = ["parts"] * len(parts)
    dtype = common_dtype(parts, names, dims)
    found = [tensor(part, "parts", dims) for part in parts]
    first = found[0]
    if not first.dims:
        raise OpTypeError("parts", f"tensors with an axis, not {first}", "use `stack`")
    place = axis(along, "axis", first)
    total: Dim = first.dims[place]
    for other in found[1:]:
        if len(other.dims) != len(first.dims):
            raise OpTypeError("parts", f"a tensor of as many axes as {first}, not {other}")
        for i, (left, right) in enumerate(zip(first.dims, other.dims, strict=True)):
            if i != place:
                same_size(left, right, "parts", f"like {first} in axis {i}, not {other}", dims)
        total = dims.resolve(DimArith("+", total, other.dims[place]))
    return (TensorType(dtype, (*first.dims[:place], total, *first.dims[place + 1 :])),)


def joined_lists(along: Argument, lists: Sequence[ListType]) -> Type:
    if constant_integer(along, "axis") != 0:
        raise OpTypeError("axis", "0, because lists have no other axis")
    item = lists[0].item
    for one in lists[1:]:
        item = common_item(item, one.item, "parts")
    bounds = [one.maximum for one in lists]
    known = [bound for bound in bounds if bound is not None]
    return ListType(item, sum(known) if len(known) == len(bounds) else None)


def reference(along: int, *parts: Item) -> Item:
    if all(isinstance(part, list) for part in parts):
        return [item for part in parts if isinstance(part, list) for item in part]
    return np.concatenate(same_dtype(*parts), integer(along))


def lower(emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]) -> tuple[str, ...]:
    along, *parts = operands
    dtype = operand_dtype(parts)
    require(dtype, MOVABLE, "Concat")
    like = first_batched(parts)
    tensors = [batched_like(emit, part, like, dtype) for part in parts]
    item_rank = len(tensor_type(results[0]).dims)
    assert all(rank(part) == item_rank for part in parts)
    return emit.node("Concat", tensors, axis=emit.axis(integer(along.literal), item_rank))


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3)).astype(np.float32)
    ids = np.arange(4)
    lists: list[Item] = [x, x[:1]]
    return [
        (0, x, x[:1]),
        (1, x, x[:, :2], x),
        (-1, x, x),
        (0, ids, (7,)),
        (0, (1, 2), ids),
        (0, x),
        (0, np.array(["a"], object), np.array(["b", "c"], object)),
        (0, lists, lists),
    ]


OP = Op(
    name="core.concat",
    summary="Joins tensors along an axis, or lists end to end.",
    params=(
        Param("axis", "The axis to join along.", True, has_default=True, default=0, keyword=True),
        Param("parts", "Tensors that agree in dtype and all other axes.", variadic=True),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    example="ids = concat(ids, [token])",
    samples=samples,
)
