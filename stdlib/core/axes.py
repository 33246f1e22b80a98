"""Moving, removing and adding axes."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import TensorType, Type
from ..constants import axes, constant_integer, constant_integers
from ..lowering import MOVABLE, require, tensor_type
from ..lowering import squeeze as without
from ..lowering import unsqueeze as with_axes
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
from ..rules import same_size, tensor
from ..values import array, integer, integers, scalar_or_array

X = Param("x", "A tensor.")


def transpose_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    rank = len(found.dims)
    if arguments[1].literal is None:
        return (TensorType(found.dtype, found.dims[::-1]),)
    order = constant_integers(arguments[1], "order")
    if sorted(order) != list(range(rank)):
        raise OpTypeError("order", f"each of the axes 0 to {rank - 1} of {found} once")
    return (TensorType(found.dtype, tuple(found.dims[axis] for axis in order)),)


def transpose(x: Item, order: Literal) -> Array:
    return np.transpose(array(x), None if order is None else integers(order))


def lower_transpose(
    emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]
) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    require(found.dtype, MOVABLE, "Transpose")
    rank = len(found.dims)
    order = operands[1].literal
    listed = tuple(reversed(range(rank))) if order is None else integers(order)
    if not rank:
        return emit.node("Identity", [emit.tensor(operands[0])])
    batch = [0] if emit.batched else []
    permutation = [*batch, *(emit.axis(axis, rank) for axis in listed)]
    return emit.node("Transpose", [emit.tensor(operands[0])], perm=permutation)


def squeeze_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    removed = squeezed(arguments[1], found, dims)
    for place in removed:
        same_size(found.dims[place], 1, "x", f"of size 1 in axis {place}, not {found}", dims)
    kept = tuple(dim for place, dim in enumerate(found.dims) if place not in removed)
    return (TensorType(found.dtype, kept),)


def squeezed(argument: Argument, found: TensorType, dims: Dims) -> tuple[int, ...]:
    if argument.literal is not None:
        return axes(argument, "axis", found)
    resolved = [dims.resolve(dim) for dim in found.dims]
    unknown = next((dim for dim in resolved if not isinstance(dim, int)), None)
    if unknown is not None:
        raise OpTypeError("axis", f"the axes to remove, because {unknown} of {found} may be 1")
    return tuple(place for place, dim in enumerate(resolved) if dim == 1)


def squeeze(x: Item, axis: Literal) -> Item:
    value = array(x)
    return scalar_or_array(np.squeeze(value, None if axis is None else integers(axis)))


def lower_squeeze(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    require(found.dtype, MOVABLE, "Squeeze")
    literal = operands[1].literal
    if literal is None:
        listed = tuple(place for place, dim in enumerate(found.dims) if dim == 1)
        if not all(isinstance(dim, int) for dim in found.dims):
            raise Decline("which axes have size 1 is not known")
    else:
        listed = integers(literal)
    places = [emit.axis(axis, len(found.dims)) for axis in listed]
    return (without(emit, emit.tensor(operands[0]), places),)


def expand_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    place = new_axis(constant_integer(arguments[1], "axis"), len(found.dims))
    return (TensorType(found.dtype, (*found.dims[:place], 1, *found.dims[place:])),)


def new_axis(value: int, rank: int) -> int:
    if not -rank - 1 <= value <= rank:
        raise OpTypeError("axis", f"a place from {-rank - 1} to {rank}, not {value}")
    return value % (rank + 1)


def expand(x: Item, axis: int) -> Array:
    return np.expand_dims(array(x), integer(axis))


def lower_expand(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    require(found.dtype, MOVABLE, "Unsqueeze")
    place = emit.axis(integer(operands[1].literal), len(found.dims) + 1)
    return (with_axes(emit, emit.tensor(operands[0]), [place]),)


def transpose_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3, 4)).astype(np.float32)
    return [(x,), (x, (2, 0, 1)), (x[0], (0, 1)), (x[0, 0],), (x[0, 0, 0],), (x > 0, (1, 2, 0))]


def squeeze_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (1, 3, 1)).astype(np.float32)
    return [(x, 0), (x, -1), (x, (0, 2)), (x,), (x[:, 0],), (x[0], 1)]


def expand_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3)).astype(np.float32)
    return [(x, 0), (x, 1), (x, -1), (x[0, 0], 0), (x, 2)]


OPS = (
    Op(
        name="core.transpose",
        summary="Puts the axes in another order; without one, in reverse.",
        params=(X, Param("order", "The axes in their new order.", True, has_default=True)),
        results=("y",),
        types=transpose_types,
        reference=transpose,
        lowering=lower_transpose,
        example="y = transpose(x, [1, 0])",
        samples=transpose_samples,
    ),
    Op(
        name="core.squeeze",
        summary="Removes axes of size 1; without `axis` all of them, which must then be known.",
        params=(X, Param("axis", "One axis or several.", True, has_default=True)),
        results=("y",),
        types=squeeze_types,
        reference=squeeze,
        lowering=lower_squeeze,
        example="heat = squeeze(x, 0)",
        samples=squeeze_samples,
    ),
    Op(
        name="core.expand_dims",
        summary="Adds an axis of size 1.",
        params=(X, Param("axis", "Its place in the result.", constant=True)),
        results=("y",),
        types=expand_types,
        reference=expand,
        lowering=lower_expand,
        example="row = expand_dims(x, 0)",
        samples=expand_samples,
    ),
)
