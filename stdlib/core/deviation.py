"""How far elements lie apart: variance and standard deviation; and their product."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, TensorType, Type
from ..constants import axes, constant_bool
from ..elementwise import Function
from ..lowering import FLOATS, mean, reduce, require, tensor_type
from ..op import (
    Argument,
    Array,
    Decline,
    Emitter,
    Item,
    Literal,
    Lowering,
    Op,
    Operand,
    Param,
    Sample,
)
from ..rules import floating, number
from ..values import array, integers

AXIS = Param("axis", "One axis or several; all when left out.", True, has_default=True)
KEEPDIMS = Param("keepdims", "Keep the axes, with size 1.", True, has_default=True, default=False)


def reduced(found: TensorType, arguments: Sequence[Argument]) -> tuple[Type, ...]:
    removed = axes(arguments[1], "axis", found)
    keep = constant_bool(arguments[2], "keepdims")
    kept: list[Dim] = []
    for place, dim in enumerate(found.dims):
        if place not in removed:
            kept.append(dim)
        elif keep:
            kept.append(1)
    return (TensorType(found.dtype, tuple(kept)),)


def float_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    return reduced(floating(arguments[0], "x", dims), arguments)


def number_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    return reduced(number(arguments[0], "x", dims), arguments)


def along(axis: Literal) -> "tuple[int, ...] | None":
    return None if axis is None else integers(axis)


def product(x: Item, axis: Literal, keepdims: bool) -> Array:
    value = array(x)
    multiply: Function = np.multiply.reduce
    with np.errstate(all="ignore"):
        return np.asarray(multiply(value, along(axis), value.dtype, keepdims=keepdims))


def variance(x: Item, axis: Literal, keepdims: bool) -> Array:
    return spread(np.var, x, axis, keepdims)


def deviation(x: Item, axis: Literal, keepdims: bool) -> Array:
    return spread(np.std, x, axis, keepdims)


def spread(apply: Function, x: Item, axis: Literal, keepdims: bool) -> Array:
    value = array(x)
    if value.dtype.kind in "iu":
        value = value.astype(np.float32)
    sizes = value.shape if axis is None else [value.shape[one] for one in integers(axis)]
    if 0 in sizes:  # NaN, of which NumPy would warn
        return np.add(
            np.add.reduce(value, along(axis), keepdims=keepdims), value.dtype.type(np.nan)
        )
    with np.errstate(all="ignore"):
        return np.asarray(apply(value, axis=along(axis), keepdims=keepdims), value.dtype)


def lower_spread(rooted: bool) -> Lowering:
    def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
        found = tensor_type(operands[0].type)
        require(found.dtype, FLOATS, "ReduceMean")
        x = emit.tensor(operands[0])
        literal = operands[1].literal
        listed = range(len(found.dims)) if literal is None else integers(literal)
        if not listed:
            return emit.node("Sub", [x, x])
        (apart,) = emit.node("Sub", [x, *mean(emit, x, found, listed, keepdims=True)])
        (squares,) = emit.node("Mul", [apart, apart])
        result = mean(emit, squares, found, listed, bool(operands[2].literal))
        return emit.node("Sqrt", result) if rooted else result

    return lower


def lower_product(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    if found.dtype.is_integer:
        raise Decline("ONNX Runtime multiplies integers in f64 and stops at their bounds")
    require(found.dtype, FLOATS, "ReduceProd")
    x = emit.tensor(operands[0])
    places = graph_axes(emit, operands[1].literal, len(found.dims))
    if not places:
        return emit.node("Identity", [x])
    return reduce(emit, "ReduceProd", x, places, bool(operands[2].literal))


def graph_axes(emit: Emitter, literal: Literal, rank: int) -> list[int]:
    listed = tuple(range(rank)) if literal is None else integers(literal)
    return [emit.axis(axis, rank) for axis in listed]


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3, 4)).astype(np.float32)
    return [
        (x,),
        (x, 0),
        (x, (0, -1), True),
        (x[0, 0, 0],),
        (x.astype(np.float64), 1),
        (x.astype(np.float16), 1),
    ]


def product_samples(random: np.random.Generator) -> Sequence[Sample]:
    integers = random.integers(-9, 9, (3, 4))
    dtypes = (np.int64, np.int32, np.uint8)
    return [
        *samples(random),
        (integers + 2**40, 1),
        *((integers.astype(dtype), 1) for dtype in dtypes),
    ]


FLOAT = Param("x", "A tensor of floating-point numbers.")
OPS = (
    Op(
        name="core.var",
        summary="Gives the mean of the squared distances from the mean along axes; of nothing NaN.",
        params=(FLOAT, AXIS, KEEPDIMS),
        results=("y",),
        types=float_types,
        reference=variance,
        lowering=lower_spread(rooted=False),
        exact=False,
        example="y = var(x, axis = -1)",
        samples=samples,
    ),
    Op(
        name="core.std",
        summary="Gives the standard deviation along axes, the root of `var`; of nothing NaN.",
        params=(FLOAT, AXIS, KEEPDIMS),
        results=("y",),
        types=float_types,
        reference=deviation,
        lowering=lower_spread(rooted=True),
        exact=False,
        example="y = std(x, axis = -1)",
        samples=samples,
    ),
    Op(
        name="core.prod",
        summary="Multiplies along axes; integers keep their dtype and wrap around.",
        params=(Param("x", "A tensor of numbers."), AXIS, KEEPDIMS),
        results=("y",),
        types=number_types,
        reference=product,
        lowering=lower_product,
        exact=False,
        example="y = prod(shape(x))",
        samples=product_samples,
    ),
)
