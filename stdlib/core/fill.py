"""Making tensors of one value, and of counted integers."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DType, TensorType, Type
from ..constants import constant_dtype
from ..dtypes import to_numpy
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..rules import common_dtype, scalar_integer, sizes, tensor
from ..values import integer, integers

SHAPE = Param("shape", "One size or a list of them, literal or made at run time.")
DTYPE = Param("dtype", "The dtype.", constant=True, has_default=True, default=DType.F32)


def zeros_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    return (TensorType(constant_dtype(arguments[1], "dtype"), filled(arguments[0], dims)),)


def full_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    dtype = constant_dtype(arguments[2], "dtype")
    value = tensor(arguments[1], "value", dims)
    if value.dims:
        raise OpTypeError("value", f"one value, not {value}")
    common_dtype([Argument(TensorType(dtype)), arguments[1]], ("dtype", "value"), dims)
    return (TensorType(dtype, filled(arguments[0], dims)),)


def filled(shape: Argument, dims: Dims) -> tuple[Dim, ...]:
    found = sizes(shape, "shape", dims)
    for size in found:
        if isinstance(size, int) and size < 0:
            raise OpTypeError("shape", f"sizes of at least 0, not {size}")
    return found


def zeros(shape: "Item | Literal", dtype: DType) -> Array:
    if dtype is DType.STRING:
        return np.full(integers(shape), "", object)
    return np.zeros(integers(shape), to_numpy(dtype))


def full(shape: "Item | Literal", value: "Item | Literal", dtype: DType) -> Array:
    return np.full(integers(shape), value, to_numpy(dtype))


def range_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    start, stop, step = arguments
    known = [scalar_integer(start, "start", dims)]
    known.append(None if absent(stop) else scalar_integer(stop, "stop", dims))
    known.append(scalar_integer(step, "step", dims))
    if known[2] == 0:
        raise OpTypeError("step", "a step other than 0")
    if not all(one.known for one in arguments):
        return (TensorType(DType.I64, (dims.fresh("n"),)),)
    return (TensorType(DType.I64, (len(counted(*(one.literal for one in arguments))),)),)


def absent(argument: Argument) -> bool:
    return argument.known and argument.literal is None


def counted(start: "Item | Literal", stop: "Item | Literal", step: "Item | Literal") -> range:
    first, last = (0, integer(start)) if stop is None else (integer(start), integer(stop))
    return range(first, last, integer(step))


def make_range(start: "Item | Literal", stop: "Item | Literal", step: "Item | Literal") -> Array:
    return np.array(counted(start, stop, step), np.int64)


def zeros_samples(_: np.random.Generator) -> Sequence[Sample]:
    return [
        (3,),
        ((2, 3), DType.U8),
        (np.array([2, 0]), DType.I64),
        (np.array(4),),
        ((), DType.F64),
    ]


def full_samples(_: np.random.Generator) -> Sequence[Sample]:
    return [
        (3, 0.5),
        ((2, 3), 7, DType.U8),
        (np.array([2, 1]), np.array(True), DType.BOOL),
        (2, "-", DType.STRING),
    ]


def range_samples(_: np.random.Generator) -> Sequence[Sample]:
    return [(5,), (2, 5), (5, 0, -2), (np.array(4),), (1, np.array(4)), (0,)]


OPS = (
    Op(
        name="core.zeros",
        summary="Makes a tensor of zeros (false, empty strings).",
        params=(SHAPE, DTYPE),
        results=("y",),
        types=zeros_types,
        reference=zeros,
        example="h = zeros([2, 128])",
        samples=zeros_samples,
    ),
    Op(
        name="core.full",
        summary="Makes a tensor of one value.",
        params=(SHAPE, Param("value", "The value of every element."), DTYPE),
        results=("y",),
        types=full_types,
        reference=full,
        example="grey = full([48, 320, 3], 127, u8)",
        samples=full_samples,
    ),
    Op(
        name="core.range",
        summary="Counts from `start` up to, not including, `stop`; `range(n)` counts from 0 to n.",
        params=(
            Param("start", "The first integer; the end if `stop` is left out."),
            Param("stop", "Where to end.", has_default=True),
            Param("step", "What to add each time.", has_default=True, default=1),
        ),
        results=("y",),
        types=range_types,
        reference=make_range,
        example="i = range(len(boxes))",
        samples=range_samples,
    ),
)
