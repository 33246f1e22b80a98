"""Reducing axes: sum, mean, max, min."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DType, TensorType, Type
from ..constants import axes, constant_bool
from ..elementwise import Function
from ..lowering import ARITHMETIC, FLOATS, nan_flags, nan_of, reduce, require, tensor_type, with_nan
from ..lowering import mean as write_mean
from ..op import (
    Argument,
    Array,
    Decline,
    Emitter,
    Fold,
    Item,
    Literal,
    Lowering,
    Op,
    Operand,
    Param,
    Reference,
    Sample,
    TypeRule,
)
from ..rules import floating, number
from ..values import array, integers

PARAMS = (
    Param("x", "A tensor of numbers."),
    Param("axis", "One axis or several; all when left out.", True, has_default=True),
    Param("keepdims", "Keep the axes, with size 1.", True, has_default=True, default=False),
)
CHOOSING = {"ReduceMax": "Max", "ReduceMin": "Min"}
BOUNDS = frozenset({DType.U8, DType.I8, DType.I32, DType.I64, DType.F32, DType.F64})


def reduced(only_floats: bool) -> TypeRule:
    def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
        found = (floating if only_floats else number)(arguments[0], "x", dims)
        removed = axes(arguments[1], "axis", found)
        keep = constant_bool(arguments[2], "keepdims")
        kept: list[Dim] = []
        for place, dim in enumerate(found.dims):
            if place not in removed:
                kept.append(dim)
            elif keep:
                kept.append(1)
        return (TensorType(found.dtype, tuple(kept)),)

    return types


def over_axes(apply: Function, empty: bool = True) -> Reference:
    def reference(x: Item, axis: Literal, keepdims: bool) -> Array:
        value = array(x)
        along = None if axis is None else integers(axis)
        if not empty and nothing_along(value, along):
            raise ValueError(f"a tensor of shape {list(value.shape)} has no element to choose from")
        with np.errstate(all="ignore"):
            return apply(value, axis=along, keepdims=keepdims)

    return reference


def total(x: Array, axis: "tuple[int, ...] | None", keepdims: bool) -> Array:
    return np.add.reduce(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def mean(x: Array, axis: "tuple[int, ...] | None", keepdims: bool) -> Array:
    if nothing_along(x, axis):  # NaN, of which NumPy would warn
        return np.add(total(x, axis, keepdims), x.dtype.type(np.nan))
    function: Function = np.mean
    return np.asarray(function(x, axis=axis, keepdims=keepdims), x.dtype)


def is_integer(dtype: DType) -> bool:
    return dtype.is_integer


def nothing_along(x: Array, axis: "tuple[int, ...] | None") -> bool:
    """Return whether an axis that is reduced has no elements."""
    return 0 in (x.shape if axis is None else [x.shape[one] for one in axis])


def lower_to(op_type: str, allowed: frozenset[DType]) -> Lowering:
    def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
        found = tensor_type(operands[0].type)
        if op_type == "ReduceSum" and found.dtype.is_integer:
            raise Decline("ONNX Runtime adds integers up in f64 and stops at their bounds")
        require(found.dtype, allowed, op_type)
        rank = len(found.dims)
        literal = operands[1].literal
        listed = tuple(range(rank)) if literal is None else integers(literal)
        x = emit.tensor(operands[0])
        if not listed:
            return emit.node("Identity", [x])
        keepdims = bool(operands[2].literal)
        if op_type == "ReduceMean":
            return write_mean(emit, x, found, listed, keepdims)
        places = [emit.axis(axis, rank) for axis in listed]
        result = reduce(emit, op_type, x, places, keepdims)
        if op_type not in CHOOSING:
            return result
        if not all(isinstance(found.dims[axis], int) for axis in listed):
            result = failing_of_nothing(emit, op_type, x, result[0], places, keepdims)
        if found.dtype.is_float:
            # ONNX Runtime's kernels pass over NaN.
            (flags,) = nan_flags(emit, x)
            (any_nan,) = reduce(emit, "ReduceMax", flags, places, keepdims)
            return with_nan(emit, any_nan, emit.constant(nan_of(found.dtype)), *result)
        return result

    def lower_choosing(
        emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
    ) -> tuple[str, ...]:
        found = tensor_type(operands[0].type)
        literal = operands[1].literal
        reduced = (
            found.dims if literal is None else [found.dims[axis] for axis in integers(literal)]
        )
        if 0 in reduced:
            raise Decline("there is no element to choose from")
        if found.dtype not in ARITHMETIC and not all(isinstance(size, int) for size in reduced):
            raise Decline("whether there is an element to choose from is not known")
        return lower(emit, operands, results)

    return lower_choosing if op_type in CHOOSING else lower


def failing_of_nothing(
    emit: Emitter, op_type: str, x: str, result: str, places: Sequence[int], keepdims: bool
) -> tuple[str, ...]:
    """Write a choice that fails, as the reference does, when there is nothing to choose from.

    ONNX Runtime's kernels would give a bound of the dtype. The first element, which is looked up
    and changes no choice, is not there then.
    """
    first = x
    index = np.zeros(1 if keepdims else (), np.int64)
    for place in sorted(places, reverse=True):
        (first,) = emit.node("Gather", [first, emit.constant(index)], axis=place)
    return emit.node(CHOOSING[op_type], [result, first])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3, 4)).astype(np.float32)
    return [
        (x,),
        (x, 0),
        (x, -1),
        (x, (0, 2)),
        (x, (1,), True),
        (x, None, True),
        (x[0, 0, 0],),
        (x.astype(np.float64), 1),
        (x.astype(np.float16), 1),
    ]


def number_samples(random: np.random.Generator) -> Sequence[Sample]:
    integers = random.integers(-9, 9, (3, 4))
    nan = random.normal(0, 1, (3, 4)).astype(np.float32)
    nan[1, 2] = np.nan
    return [
        *samples(random),
        (nan, 1),
        (nan,),
        (integers.astype(np.int32), 0),
        (integers, 1),
        (integers * 2**58 + 1, 1),
        (integers.astype(np.uint8), 1),
    ]


OPS = (
    Op(
        name="core.sum",
        summary="Adds up along axes; integers keep their dtype and wrap around.",
        params=PARAMS,
        results=("y",),
        types=reduced(only_floats=False),
        reference=over_axes(total),
        lowering=lower_to("ReduceSum", FLOATS),
        exact=False,
        example="y = sum(x, axis = -1)",
        kernel=Fold("{0} + {1}", "zero", sums=True, exact_for=is_integer),
        samples=number_samples,
    ),
    Op(
        name="core.mean",
        summary="Averages along axes; of nothing the mean is NaN.",
        params=PARAMS,
        results=("y",),
        types=reduced(only_floats=True),
        reference=over_axes(mean),
        lowering=lower_to("ReduceMean", FLOATS),
        exact=False,
        example="y = mean(x, axis = 0)",
        kernel=Fold("{0} + {1}", "zero", sums=True, end="{0} / {n}", exact_for=is_integer),
        samples=samples,
    ),
    Op(
        name="core.max",
        summary="Gives the greatest along axes; NaN if there is one.",
        params=PARAMS,
        results=("y",),
        types=reduced(only_floats=False),
        reference=over_axes(np.max, empty=False),
        lowering=lower_to("ReduceMax", BOUNDS),
        example="best = max(scores)",
        kernel=Fold("greater_of({0}, {1})", "lowest"),
        samples=number_samples,
    ),
    Op(
        name="core.min",
        summary="Gives the least along axes; NaN if there is one.",
        params=PARAMS,
        results=("y",),
        types=reduced(only_floats=False),
        reference=over_axes(np.min, empty=False),
        lowering=lower_to("ReduceMin", BOUNDS),
        example="worst = min(scores)",
        kernel=Fold("lesser_of({0}, {1})", "highest"),
        samples=number_samples,
    ),
)
