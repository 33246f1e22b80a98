"""An element of its own for each place: taking and putting along an axis."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import axis as constant_axis
from ..lowering import MOVABLE, batched_like, first_batched, require, tensor_type
from ..op import Argument, Array, Decline, Emitter, Item, Op, Operand, OpTypeError, Param, Sample
from ..rules import common_dtype, same_size, tensor
from ..values import array, integer, same_dtype

X = Param("x", "A tensor.")
INDICES = Param("indices", "Integers, of as many axes; negative ones count from the end.")
AXIS = Param("axis", "The axis that is indexed.", True, has_default=True, default=-1)


def indexed(
    x: Argument, indices: Argument, axis: Argument, dims: Dims
) -> tuple[TensorType, TensorType]:
    """Require indices that agree with x in every axis but one."""
    found, places = tensor(x, "x", dims), tensor(indices, "indices", dims)
    if not places.dtype.is_integer:
        raise OpTypeError("indices", f"integers, not {places}")
    along = constant_axis(axis, "axis", found)
    if len(places.dims) != len(found.dims):
        raise OpTypeError("indices", f"of as many axes as {found}, not {places}")
    for place, (one, other) in enumerate(zip(found.dims, places.dims, strict=True)):
        if place != along:
            same_size(one, other, "indices", f"like {found} in axis {place}, not {places}", dims)
    return found, places


def take_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    x, indices, axis = arguments
    found, places = indexed(x, indices, axis, dims)
    return (TensorType(found.dtype, places.dims),)


def take_along(x: Item, indices: Item, axis: int) -> Array:
    return np.take_along_axis(array(x), array(indices).astype(np.int64), integer(axis))


def lower_take(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, indices, along = operands
    require(tensor_type(x.type).dtype, MOVABLE, "GatherElements")
    if tensor_type(indices.type).dtype not in (DType.I32, DType.I64):
        raise Decline("ONNX takes elements by i32 or i64")
    like = first_batched([x, indices])
    data = batched_like(emit, x, like, None)
    places = batched_like(emit, indices, like, DType.I64)
    axis = emit.axis(integer(along.literal), len(tensor_type(x.type).dims))
    return emit.node("GatherElements", [data, places], axis=axis)


def put_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    x, indices, values, axis = arguments
    found, places = indexed(x, indices, axis, dims)
    common_dtype([x, values], ("x", "values"), dims)
    given = tensor(values, "values", dims)
    if given.dims:
        if len(given.dims) != len(places.dims):
            raise OpTypeError("values", f"one value, or of the shape of {places}, not {given}")
        for one, other in zip(places.dims, given.dims, strict=True):
            same_size(one, other, "values", f"of the shape of {places}, not {given}", dims)
    return (TensorType(found.dtype, found.dims),)


def put_along(x: Item, indices: Item, values: Item, axis: int) -> Array:
    before, given = same_dtype(array(x), values)
    result = before.copy()
    np.put_along_axis(result, array(indices).astype(np.int64), given, integer(axis))
    return result


def take_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (3, 4)).astype(np.float32)
    order = np.argsort(x, 1)
    words = np.array(["a", "b", "c"], object)
    return [
        (x, order),
        (x, order[:, :2].astype(np.int32)),
        (x, np.array([[0, -1, 2, 1]]), 0),
        (x > 0, order[:, 1:3], 1),
        (words, np.array([2, 2])),
        (x, order[:, :0]),
    ]


def put_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (3, 4)).astype(np.float32)
    order = np.argsort(x, 1)
    return [
        (x, order, x),
        (x, order[:, :2], 0),
        (x.astype(np.int64), np.array([[0, -1, 2, 1]]), 7, 0),
        (np.array(["a", "b", "c"], object), np.array([2]), "z"),
        (x, order[:, :0], 1),
    ]


OPS = (
    Op(
        name="core.take_along",
        summary="Takes for every index the element there along an axis, at the index's own place "
        "in all others: what `argsort` and `topk` give, applied.",
        params=(X, INDICES, AXIS),
        results=("y",),
        types=take_types,
        reference=take_along,
        lowering=lower_take,
        example="y = take_along(x, argsort(x))",
        samples=take_samples,
    ),
    Op(
        name="core.put_along",
        summary="Replaces for every index the element there along an axis; of equal indices the "
        "last counts.",
        params=(X, INDICES, Param("values", "One value, or one for every index."), AXIS),
        results=("y",),
        types=put_types,
        reference=put_along,
        example="y = put_along(x, argmax(x, keepdims = true), 0)",
        samples=put_samples,
    ),
)
