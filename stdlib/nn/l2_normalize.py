"""Scaling vectors to length 1."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import TensorType, Type
from ..constants import axis
from ..dtypes import to_numpy
from ..lowering import FLOATS, reduce, require, tensor_type
from ..op import Argument, Array, Emitter, Item, Literal, Op, Operand, OpTypeError, Param, Sample
from ..rules import floating
from ..values import array, integer


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = floating(arguments[0], "x", dims)
    axis(arguments[1], "axis", found)
    literal = arguments[2].literal
    if not isinstance(literal, int | float | np.ndarray) or not np.all(np.greater(literal, 0)):
        raise OpTypeError("epsilon", f"a number above 0, not {literal!r}")
    return (TensorType(found.dtype, found.dims),)


def reference(x: Item, axis: int, epsilon: Literal) -> Array:
    value, along = array(x), integer(axis)
    with np.errstate(all="ignore"):
        squares = np.add.reduce(np.square(value), axis=along, keepdims=True)
        least = np.asarray(epsilon, value.dtype)
        return np.divide(value, np.maximum(np.sqrt(squares), least))


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    require(found.dtype, FLOATS, "ReduceL2")
    x = emit.tensor(operands[0])
    place = emit.axis(integer(operands[1].literal), len(found.dims))
    (length,) = reduce(emit, "ReduceL2", x, [place], keepdims=True)
    least = emit.constant(np.asarray(operands[2].literal, to_numpy(found.dtype)))
    return emit.node("Div", [x, *emit.node("Max", [length, least])])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (3, 4)).astype(np.float32)
    x[1] = 0
    return [(x,), (x, 0), (x[0],), (x, -1, 0.5), (x.astype(np.float64),)]


OP = Op(
    name="nn.l2_normalize",
    summary="Divides by the Euclidean length along an axis, or by `epsilon` if that is greater.",
    params=(
        Param("x", "Floating-point vectors."),
        Param("axis", "The axis of a vector's elements.", True, has_default=True, default=-1),
        Param("epsilon", "The least divisor.", True, has_default=True, default=1e-12),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    exact=False,
    example="embedding = nn.l2_normalize(pooled)",
    samples=samples,
)
