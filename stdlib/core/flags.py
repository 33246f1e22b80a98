"""How many elements are true: `any`, `all`, `count_nonzero`."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DType, TensorType, Type
from ..constants import axes, constant_bool
from ..dtypes import to_onnx
from ..elementwise import Function
from ..lowering import MOVABLE, reduce, require, tensor_type
from ..op import (
    Argument,
    Array,
    Emitter,
    Item,
    Literal,
    Lowering,
    Op,
    Operand,
    OpTypeError,
    Param,
    Reference,
    Sample,
    TypeRule,
)
from ..rules import of_dtype, tensor
from ..values import array, integers

AXIS = Param("axis", "One axis or several; all when left out.", True, has_default=True)
KEEPDIMS = Param("keepdims", "Keep the axes, with size 1.", True, has_default=True, default=False)
COUNTABLE = MOVABLE - {DType.BF16, DType.F16}


def counted(result: DType) -> TypeRule:
    """Make the rule of a reduction to bools (of bools) or to counts (of numbers or bools)."""

    def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
        if result is DType.BOOL:
            found = of_dtype(arguments[0], "x", dims, DType.BOOL)
        else:
            found = tensor(arguments[0], "x", dims)
            if found.dtype not in MOVABLE:
                raise OpTypeError("x", f"numbers or bools, not {found}")
        removed = axes(arguments[1], "axis", found)
        kept: list[Dim] = [dim for place, dim in enumerate(found.dims) if place not in removed]
        if constant_bool(arguments[2], "keepdims"):
            kept = [1 if place in removed else dim for place, dim in enumerate(found.dims)]
        return (TensorType(result, tuple(kept)),)

    return types


def over_axes(apply: Function, dtype: DType) -> Reference:
    def reference(x: Item, axis: Literal, keepdims: bool) -> Array:
        along = None if axis is None else integers(axis)
        result = apply(array(x), axis=along, keepdims=keepdims)
        return np.asarray(result, np.bool_ if dtype is DType.BOOL else np.int64)

    return reference


def counting(finish: str, inverted: bool) -> Lowering:
    """Write the number of true elements, or false ones, and what is asked of it."""

    def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
        found = tensor_type(operands[0].type)
        require(found.dtype, COUNTABLE, "Cast")
        x = emit.tensor(operands[0])
        if found.dtype is not DType.BOOL:
            # NaN is not zero, and a comparison with it is false.
            (zero,) = emit.node(
                "Cast", [emit.constant(np.zeros((), np.int64))], to=to_onnx(found.dtype)
            )
            (x,) = emit.node("Not", emit.node("Equal", [x, zero]))
        if inverted:
            (x,) = emit.node("Not", [x])
        (count,) = emit.node("Cast", [x], to=to_onnx(DType.I64))
        rank, literal = len(found.dims), operands[1].literal
        listed = tuple(range(rank)) if literal is None else integers(literal)
        if listed:
            places = [emit.axis(axis, rank) for axis in listed]
            (count,) = reduce(emit, "ReduceSum", count, places, bool(operands[2].literal))
        zero = emit.constant(np.zeros((), np.int64))
        return emit.node(finish, [count, zero]) if finish else (count,)

    return lower


def samples(random: np.random.Generator) -> Sequence[Sample]:
    flags = random.integers(0, 5, (2, 3, 4)) > 0
    return [
        (flags,),
        (flags, 0),
        (flags, (0, -1), True),
        (flags[0, 0, 0],),
        (flags[:, :0], 1),
        (~flags, -1),
    ]


def number_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.integers(-1, 2, (3, 4))
    dtypes = (np.int64, np.float32, np.float64, np.int32, np.float16)
    return [*samples(random), *((x.astype(dtype), 1) for dtype in dtypes)]


OPS = (
    Op(
        name="core.any",
        summary="Says whether any element along axes is true; of none, none is.",
        params=(Param("x", "A tensor of bools."), AXIS, KEEPDIMS),
        results=("holds",),
        types=counted(DType.BOOL),
        reference=over_axes(np.any, DType.BOOL),
        lowering=counting("Greater", inverted=False),
        example="found = any(scores > 0.5)",
        samples=samples,
    ),
    Op(
        name="core.all",
        summary="Says whether all elements along axes are true; of none, all are.",
        params=(Param("x", "A tensor of bools."), AXIS, KEEPDIMS),
        results=("holds",),
        types=counted(DType.BOOL),
        reference=over_axes(np.all, DType.BOOL),
        lowering=counting("Equal", inverted=True),
        example="sure = all(scores > 0.5)",
        samples=samples,
    ),
    Op(
        name="core.count_nonzero",
        summary="Counts the elements along axes that are true, or not 0; NaN is not 0.",
        params=(Param("x", "A tensor of bools or numbers."), AXIS, KEEPDIMS),
        results=("n",),
        types=counted(DType.I64),
        reference=over_axes(np.count_nonzero, DType.I64),
        lowering=counting("", inverted=False),
        example="n = count_nonzero(scores > 0.5)",
        samples=number_samples,
    ),
)
