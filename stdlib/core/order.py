"""Sorting, and taking elements by their index."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import axis, constant_bool
from ..lowering import MOVABLE, require, tensor_type
from ..op import Argument, Array, Decline, Emitter, Item, Op, Operand, OpTypeError, Param, Sample
from ..rules import tensor
from ..values import array, integer, scalar_or_array

PARAMS = (
    Param("x", "A tensor of numbers or strings."),
    Param("axis", "The axis to sort along.", True, has_default=True, default=-1),
    Param("descending", "Put the greatest first.", True, has_default=True, default=False),
)


def sorted_type(arguments: Sequence[Argument], dims: Dims) -> TensorType:
    found = tensor(arguments[0], "x", dims)
    if not (found.dtype.is_number or found.dtype is DType.STRING):
        raise OpTypeError("x", f"numbers or strings, not {found}")
    axis(arguments[1], "axis", found)
    constant_bool(arguments[2], "descending")
    return found


def sort_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    return (sorted_type(arguments, dims),)


def argsort_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    return (TensorType(DType.I64, sorted_type(arguments, dims).dims),)


def argsort(x: Item, axis: int, descending: bool) -> Array:
    value = array(x)
    if not descending:
        return np.argsort(value, axis, kind="stable")
    # Sorting the reversed axis and reversing the result keeps equal elements in their order.
    size = value.shape[axis]
    return size - 1 - np.flip(np.argsort(np.flip(value, axis), axis, kind="stable"), axis)


def sort(x: Item, axis: int, descending: bool) -> Array:
    value = np.sort(array(x), axis, kind="stable")
    return np.flip(value, axis) if descending else value


def take_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    indices = tensor(arguments[1], "indices", dims)
    if not indices.dtype.is_integer:
        raise OpTypeError("indices", f"integers, not {indices}")
    place = axis(arguments[2], "axis", found)
    return (TensorType(found.dtype, found.dims[:place] + indices.dims + found.dims[place + 1 :]),)


def take(x: Item, indices: Item, axis: int) -> Item:
    value, places = array(x), array(indices).astype(np.int64)
    if places.size and value.shape[axis] == 0:
        raise IndexError(f"axis {axis} of shape {list(value.shape)} has nothing to take")
    return scalar_or_array(np.take(value, places, axis))


def lower_take(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, indices, along = operands
    found = tensor_type(x.type)
    require(found.dtype, MOVABLE, "Gather")
    if x.batched and indices.batched:
        raise Decline("each row has indices of its own")
    if tensor_type(indices.type).dtype not in (DType.I32, DType.I64):
        raise Decline("ONNX takes elements by i32 or i64")
    axis = integer(along.literal)
    place = emit.axis(axis, len(found.dims)) if x.batched else axis % len(found.dims)
    if indices.batched and place != 0:
        raise Decline("the batch axis of the indices would not come first")
    gathered = [emit.tensor(x), emit.tensor(indices, DType.I64)]
    return emit.node("Gather", gathered, axis=place)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.integers(-3, 3, (3, 6)).astype(np.float32)
    return [
        (x,),
        (x, 0),
        (x, 1, True),
        (x.astype(np.uint8), -1, True),
        (np.array(["b", "a", "c", "a"], object),),
        (np.array(["b", "a", "c", "a"], object), 0, True),
    ]


def take_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (4, 3, 2)).astype(np.float32)
    return [
        (x, np.array([2, 0, -1])),
        (x, np.array([[0, 1], [1, 2]], np.int32), 1),
        (x, np.array(1), -1),
        (x, (0, 3)),
        (np.array(["a", "b"], object), np.array([1, 1, 0])),
        (np.array(["a", "b"], object), np.array(1)),
    ]


OPS = (
    Op(
        name="core.sort",
        summary="Sorts along an axis; NaN counts as greatest.",
        params=PARAMS,
        results=("y",),
        types=sort_types,
        reference=sort,
        example="y = sort(scores, descending = true)",
        samples=samples,
    ),
    Op(
        name="core.argsort",
        summary="Gives the indices that sort along an axis; equal elements keep their order.",
        params=PARAMS,
        results=("indices",),
        types=argsort_types,
        reference=argsort,
        example="order = argsort(scores)",
        samples=samples,
    ),
    Op(
        name="core.take",
        summary="Takes elements along an axis by their index; negative ones count from the end.",
        params=(
            Param("x", "A tensor."),
            Param("indices", "Integers; their axes replace the one indexed."),
            Param("axis", "The axis to take along.", True, has_default=True, default=0),
        ),
        results=("y",),
        types=take_types,
        reference=take,
        lowering=lower_take,
        example="ranked = take(boxes, order)",
        samples=take_samples,
    ),
)
