"""Layer normalisation: each vector with mean 0 and variance 1."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import TensorType, Type
from ..dtypes import to_numpy
from ..lowering import FLOATS, aligned, rank, reduce, require, tensor_type
from ..op import Argument, Array, Emitter, Item, Literal, Op, Operand, OpTypeError, Param, Sample
from ..rules import common_dtype, floating, same_size, tensor
from ..values import array


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    x, scale, bias, epsilon = arguments
    found = floating(x, "x", dims)
    if not found.dims:
        raise OpTypeError("x", f"a vector, or several, not {found}")
    for argument, name in ((scale, "scale"), (bias, "bias")):
        if argument.known and argument.literal is None:
            continue
        common_dtype([x, argument], ("x", name), dims)
        given = tensor(argument, name, dims)
        if len(given.dims) != 1:
            raise OpTypeError(name, f"a vector, not {given}")
        same_size(found.dims[-1], given.dims[0], name, f"as long as a vector of {found}", dims)
    literal = epsilon.literal
    if isinstance(literal, bool) or not isinstance(literal, int | float) or literal <= 0:
        raise OpTypeError("epsilon", f"a number above 0, not {literal!r}")
    return (TensorType(found.dtype, found.dims),)


def reference(x: Item, scale: "Item | Literal", bias: "Item | Literal", epsilon: float) -> Array:
    value = array(x)
    if value.size == 0:
        return value
    with np.errstate(all="ignore"):
        apart = np.subtract(value, np.asarray(mean(value), value.dtype))
        spread = np.add(mean(np.square(apart)), value.dtype.type(epsilon))
        result = np.divide(apart, np.sqrt(spread))
        if scale is not None:
            result = np.multiply(result, np.asarray(array(scale), value.dtype))
        return result if bias is None else np.add(result, np.asarray(array(bias), value.dtype))


def mean(x: Array) -> Array:
    return np.divide(np.add.reduce(x, axis=-1, keepdims=True), x.dtype.type(x.shape[-1]))


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, scale, bias, epsilon = operands
    found = tensor_type(x.type)
    require(found.dtype, FLOATS, "ReduceMean")
    value = aligned(emit, x, len(found.dims))
    place = [rank(x) - 1 + int(x.batched)]
    apart = emit.node("Sub", [value, *reduce(emit, "ReduceMean", value, place, keepdims=True)])
    squares = emit.node("Mul", [*apart, *apart])
    variance = reduce(emit, "ReduceMean", squares[0], place, keepdims=True)
    least = emit.constant(np.array(epsilon.literal, to_numpy(found.dtype)))
    result = emit.node("Div", [*apart, *emit.node("Sqrt", emit.node("Add", [*variance, least]))])
    for op_type, operand in (("Mul", scale), ("Add", bias)):
        if operand.tensor is not None or operand.literal is not None:
            other = aligned(emit, operand, len(found.dims), found.dtype)
            result = emit.node(op_type, [*result, other])
    return result


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (3, 8)).astype(np.float32)
    scale, bias = random.normal(0, 1, (2, 8)).astype(np.float32)
    return [
        (x,),
        (x, scale),
        (x, scale, bias),
        (x[0], None, bias, 1e-3),
        (x.astype(np.float64), scale.astype(np.float64), bias.astype(np.float64)),
        (x * 0,),
    ]


OP = Op(
    name="nn.layer_norm",
    summary="Subtracts from every vector along the last axis its mean and divides by the root of "
    "its variance plus `epsilon`; then multiplies by `scale` and adds `bias`, where given.",
    params=(
        Param("x", "Floating-point vectors."),
        Param("scale", "What each element is multiplied by, [D].", has_default=True),
        Param("bias", "What is added to each element, [D].", has_default=True),
        Param("epsilon", "What is added to the variance.", True, has_default=True, default=1e-5),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    exact=False,
    tolerance=5e-6,
    example="y = nn.layer_norm(x)",
    samples=samples,
)
