"""Making one tensor of several of equal shape, and a list of one."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, ListType, TensorType, Type
from ..constants import constant_integer
from ..lowering import (
    MOVABLE,
    batched_like,
    first_batched,
    operand_dtype,
    require,
    tensor_type,
    unsqueeze,
)
from ..op import Argument, Emitter, Item, Op, Operand, OpTypeError, Param, Sample
from ..rules import common_dtype, common_item, same_size, tensor
from ..values import array, integer, same_dtype, scalar_or_array, stacked


def stack_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    along, *parts = arguments
    if not parts:
        raise OpTypeError("parts", "at least one tensor")
    count: Dim = len(parts)
    if len(parts) == 1 and isinstance(parts[0].type, ListType):
        found = tensor(parts[0], "parts", dims)
        dtype, count, inner = found.dtype, found.dims[0], found.dims[1:]
    else:
        dtype = common_dtype(parts, ["parts"] * len(parts), dims)
        first, *others = (tensor(part, "parts", dims) for part in parts)
        inner = first.dims
        for other in others:
            if len(other.dims) != len(inner):
                raise OpTypeError("parts", f"of the shape of {first}, not {other}")
            for left, right in zip(inner, other.dims, strict=True):
                same_size(left, right, "parts", f"of the shape of {first}, not {other}", dims)
    place = new_axis(along, len(inner))
    return (TensorType(dtype, (*inner[:place], count, *inner[place:])),)


def new_axis(along: Argument, rank: int) -> int:
    value = constant_integer(along, "axis")
    if not -rank - 1 <= value <= rank:
        raise OpTypeError("axis", f"a place from {-rank - 1} to {rank}, not {value}")
    return value % (rank + 1)


def stack(along: int, *parts: Item) -> Item:
    if len(parts) == 1 and isinstance(parts[0], list):
        first = stacked([array(item) for item in parts[0]])
        return np.moveaxis(first, 0, integer(along))
    return np.stack(same_dtype(*parts), integer(along))


def lower_stack(
    emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
) -> tuple[str, ...]:
    along, *parts = operands
    dtype = operand_dtype(parts)
    require(dtype, MOVABLE, "Concat")
    for part in parts:
        tensor_type(part.type)
    like = first_batched(parts)
    place = emit.axis(integer(along.literal), len(tensor_type(results[0]).dims))
    tensors = [unsqueeze(emit, batched_like(emit, part, like, dtype), [place]) for part in parts]
    return emit.node("Concat", tensors, axis=place)


def unstack_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    if not found.dims:
        raise OpTypeError("x", f"a tensor with an axis, not {found}")
    count = dims.resolve(found.dims[0])
    item = TensorType(found.dtype, found.dims[1:])
    return (ListType(item, count if isinstance(count, int) else None),)


def unstack(x: Item) -> Item:
    return x if isinstance(x, list) else [scalar_or_array(item) for item in array(x)]


def list_types(arguments: Sequence[Argument], _: Dims) -> tuple[Type, ...]:
    if not arguments:
        raise OpTypeError("items", "at least one item: an empty list has no type")
    first, *others = (argument.type for argument in arguments)
    for other in others:
        first = common_item(first, other, "items")
    return (ListType(first, len(arguments)),)


def make_list(*items: Item) -> Item:
    return list(items)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3)).astype(np.float32)
    items: list[Item] = [x, x]
    return [
        (0, x, x, x),
        (1, x, x),
        (-1, x, x),
        (0, x[0, 0], 1),
        (0, np.array(3), np.array(4)),
        (0, x),
        (0, items),
        (2, items),
    ]


def unstack_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3)).astype(np.float32)
    return [(x,), (x[0],), (np.array(["a", "b"], object),)]


def list_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3)).astype(np.float32)
    return [(x, x), (x, x[:1]), (x[0, 0],), ("a", "b")]


OPS = (
    Op(
        name="core.stack",
        summary="Puts tensors of equal shape, or the items of one list, along a new axis.",
        params=(
            Param("axis", "The place of the new axis.", True, True, default=0, keyword=True),
            Param("parts", "Tensors of equal shape and dtype, or one list.", variadic=True),
        ),
        results=("y",),
        types=stack_types,
        reference=stack,
        lowering=lower_stack,
        example="pair = stack(a, b)",
        samples=samples,
    ),
    Op(
        name="core.unstack",
        summary="Makes a list of the parts along the first axis.",
        params=(Param("x", "A tensor with at least one axis."),),
        results=("items",),
        types=unstack_types,
        reference=unstack,
        example="rows = unstack(x)",
        samples=unstack_samples,
    ),
    Op(
        name="core.list",
        summary="Makes a list of items of one type, whose shapes may differ; `[a, b]` is it.",
        params=(Param("items", "The items.", variadic=True),),
        results=("items",),
        types=list_types,
        reference=make_list,
        example="crops = [a, b]",
        samples=list_samples,
    ),
)
