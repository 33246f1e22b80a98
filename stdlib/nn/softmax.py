"""Softmax: scores to probabilities, or to their logarithms."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import axis
from ..lowering import FLOATS, require, tensor_type
from ..op import Argument, Array, Emitter, Item, Lowering, Op, Operand, Param, Sample
from ..rules import floating
from ..values import array, integer


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = floating(arguments[0], "x", dims)
    axis(arguments[1], "axis", found)
    return (TensorType(found.dtype, found.dims),)


def reference(x: Item, axis: int) -> Array:
    value, along = array(x), integer(axis)
    if value.size == 0:
        return value
    with np.errstate(all="ignore"):
        powers = np.exp(np.subtract(value, np.max(value, axis=along, keepdims=True)))
        return np.divide(powers, np.add.reduce(powers, axis=along, keepdims=True))


def log_reference(x: Item, axis: int) -> Array:
    value, along = array(x), integer(axis)
    if value.size == 0:
        return value
    with np.errstate(all="ignore"):
        below = np.subtract(value, np.max(value, axis=along, keepdims=True))
        return np.subtract(below, np.log(np.add.reduce(np.exp(below), axis=along, keepdims=True)))


# ONNX Runtime's LogSoftmax of f64 gives numbers where an infinity makes the result NaN.
def lowered(op_type: str, allowed: frozenset[DType]) -> Lowering:
    def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
        found = tensor_type(operands[0].type)
        require(found.dtype, allowed, op_type)
        place = emit.axis(integer(operands[1].literal), len(found.dims))
        return emit.node(op_type, [emit.tensor(operands[0])], axis=place)

    return lower


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 5, (3, 4, 5)).astype(np.float32)
    return [(x,), (x, 0), (x, 1), (x[0, 0],), (x.astype(np.float64), -2), (x.astype(np.float16),)]


PARAMS = (
    Param("x", "Floating-point scores."),
    Param("axis", "The axis that sums to 1.", True, has_default=True, default=-1),
)
OPS = (
    Op(
        name="nn.softmax",
        summary="Makes probabilities of scores: exp(x) over its sum along an axis.",
        params=PARAMS,
        results=("p",),
        types=types,
        reference=reference,
        lowering=lowered("Softmax", FLOATS),
        exact=False,
        example="p = nn.softmax(logits)",
        samples=samples,
    ),
    Op(
        name="nn.log_softmax",
        summary="Makes logarithms of probabilities of scores, precise where those are near 0.",
        params=PARAMS,
        results=("logp",),
        types=types,
        reference=log_reference,
        lowering=lowered("LogSoftmax", frozenset({DType.F32})),
        exact=False,
        example="logp = nn.log_softmax(logits)",
        samples=samples,
    ),
)
