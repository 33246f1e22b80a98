"""Elements along an axis in another order: `flip`, `roll`, `repeat`."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DimArith, TensorType, Type
from ..constants import axes
from ..constants import axis as constant_axis
from ..lowering import MOVABLE, require, tensor_type
from ..lowering import flip as write_flip
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
from ..rules import scalar_integer, tensor
from ..values import array, integer, integers

X = Param("x", "A tensor.")


def flip_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    axes(arguments[1], "axis", found)
    return (TensorType(found.dtype, found.dims),)


def flip(x: Item, axis: Literal) -> Array:
    return np.flip(array(x), None if axis is None else integers(axis))


def lower_flip(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    require(found.dtype, MOVABLE, "Slice")
    rank, literal = len(found.dims), operands[1].literal
    listed = tuple(range(rank)) if literal is None else integers(literal)
    x = emit.tensor(operands[0])
    if not listed:
        return emit.node("Identity", [x])
    return (write_flip(emit, x, [emit.axis(axis, rank) for axis in listed]),)


def roll_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    scalar_integer(arguments[1], "shift", dims)
    constant_axis(arguments[2], "axis", found)
    return (TensorType(found.dtype, found.dims),)


def roll(x: Item, shift: "Item | Literal", axis: int) -> Array:
    return np.roll(array(x), integer(shift), integer(axis))


def lower_roll(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, shift, along = operands
    if shift.tensor is not None:
        raise Decline("a shift made at run time may differ from row to row")
    size = size_along(x, along)
    order = np.roll(np.arange(size), integer(shift.literal))
    return taken(emit, x, order, along)


def repeat_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    place = constant_axis(arguments[2], "axis", found)
    count = scalar_integer(arguments[1], "count", dims)
    if count is not None and count < 0:
        raise OpTypeError("count", f"at least 0, not {count}")
    factor = dims.fresh("n") if count is None else count
    size = dims.resolve(DimArith("*", factor, found.dims[place]))
    return (TensorType(found.dtype, (*found.dims[:place], size, *found.dims[place + 1 :])),)


def repeat(x: Item, count: "Item | Literal", axis: int) -> Array:
    times = integer(count)
    if times < 0:
        raise ValueError(f"elements cannot be repeated {times} times")
    return np.repeat(array(x), times, integer(axis))


def lower_repeat(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, count, along = operands
    if count.tensor is not None:
        raise Decline("a count made at run time may differ from row to row")
    order = np.repeat(np.arange(size_along(x, along)), integer(count.literal))
    return taken(emit, x, order, along)


def size_along(x: Operand, along: Operand) -> int:
    size = tensor_type(x.type).dims[integer(along.literal)]
    if not isinstance(size, int):
        raise Decline(f"the size {size} is not known when compiling")
    return size


def taken(emit: Emitter, x: Operand, order: Array, along: Operand) -> tuple[str, ...]:
    """Write elements along an axis in an order that is known."""
    found = tensor_type(x.type)
    require(found.dtype, MOVABLE, "Gather")
    place = emit.axis(integer(along.literal), len(found.dims))
    indices = row(emit, [int(one) for one in order])
    return emit.node("Gather", [emit.tensor(x), indices], axis=place)


def drawn(random: np.random.Generator) -> tuple[Array, Array]:
    return random.normal(0, 1, (2, 3)).astype(np.float32), np.array(["a", "b", "c"], object)


def flip_samples(random: np.random.Generator) -> Sequence[Sample]:
    x, words = drawn(random)
    return [
        (x,),
        (x, 0),
        (x, (0, -1)),
        (x[0, 0],),
        (x.astype(np.bool_), 1),
        (words,),
        (x[:, :0], 1),
    ]


def roll_samples(random: np.random.Generator) -> Sequence[Sample]:
    x, words = drawn(random)
    return [
        (x, 1),
        (x, -4, 0),
        (x, np.array(2)),
        (words, 1),
        (x.astype(np.bool_), 7, 1),
        (x[:, :0], 3),
    ]


def repeat_samples(random: np.random.Generator) -> Sequence[Sample]:
    x, words = drawn(random)
    return [(x, 2), (x, 3, 1), (x, 0), (x, np.array(2), -1), (words, 2), (x[:0], 2)]


OPS = (
    Op(
        name="core.flip",
        summary="Reverses the order of elements along axes.",
        params=(
            X,
            Param("axis", "One axis or several; all when left out.", True, has_default=True),
        ),
        results=("y",),
        types=flip_types,
        reference=flip,
        lowering=lower_flip,
        example="y = flip(x, axis = 0)",
        samples=flip_samples,
    ),
    Op(
        name="core.roll",
        summary="Moves elements along an axis; those that leave at one end come in at the other.",
        params=(
            X,
            Param("shift", "How far to move, to the end; to the front if negative."),
            Param("axis", "The axis to move along.", True, has_default=True, default=-1),
        ),
        results=("y",),
        types=roll_types,
        reference=roll,
        lowering=lower_roll,
        example="y = roll(x, 1)",
        samples=roll_samples,
    ),
    Op(
        name="core.repeat",
        summary="Repeats every element along an axis, one beside the other.",
        params=(
            X,
            Param("count", "How often each element stands in the result."),
            Param("axis", "The axis to repeat along.", True, has_default=True, default=0),
        ),
        results=("y",),
        types=repeat_types,
        reference=repeat,
        lowering=lower_repeat,
        example="y = repeat(x, 2)",
        samples=repeat_samples,
    ),
)
