"""From element to element along an axis: running sums and differences."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DimArith, DType, TensorType, Type
from ..constants import axis as constant_axis
from ..lowering import ARITHMETIC, integers, require, tensor_type
from ..op import Argument, Array, Emitter, Item, Op, Operand, OpTypeError, Param, Sample
from ..rules import number
from ..values import array, integer

PARAMS = (
    Param("x", "A tensor of numbers."),
    Param("axis", "The axis to go along.", True, has_default=True, default=-1),
)
SUMS = frozenset({DType.I32, DType.I64, DType.F32, DType.F64})


def sum_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = number(arguments[0], "x", dims)
    constant_axis(arguments[1], "axis", found)
    return (TensorType(found.dtype, found.dims),)


def running_sum(x: Item, axis: int) -> Array:
    value = array(x)
    with np.errstate(all="ignore"):
        return np.add.accumulate(value, integer(axis), value.dtype)


def lower_sum(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    require(found.dtype, SUMS, "CumSum")
    place = emit.axis(integer(operands[1].literal), len(found.dims))
    return emit.node("CumSum", [emit.tensor(operands[0]), emit.constant(np.array(place, np.int64))])


def difference_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = number(arguments[0], "x", dims)
    place = constant_axis(arguments[1], "axis", found)
    size = dims.resolve(found.dims[place])
    if size == 0:
        raise OpTypeError("x", f"at least one element to start from, not {found}")
    less = dims.resolve(DimArith("-", size, 1))
    return (TensorType(found.dtype, (*found.dims[:place], less, *found.dims[place + 1 :])),)


def differences(x: Item, axis: int) -> Array:
    value, along = array(x), integer(axis)
    if value.shape[along] == 0:
        raise ValueError(f"axis {axis} of shape {list(value.shape)} has no element to start from")
    after = np.moveaxis(value, along, 0)
    with np.errstate(all="ignore"):
        return np.moveaxis(np.subtract(after[1:], after[:-1]), 0, along)


def lower_differences(
    emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]
) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    require(found.dtype, ARITHMETIC, "Sub")
    x = emit.tensor(operands[0])
    place = integers(emit, [emit.axis(integer(operands[1].literal), len(found.dims))])
    end = integers(emit, [np.iinfo(np.int64).max])
    after = emit.node("Slice", [x, integers(emit, [1]), end, place])
    before = emit.node("Slice", [x, integers(emit, [0]), integers(emit, [-1]), place])
    return emit.node("Sub", [*after, *before])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (3, 4)).astype(np.float32)
    whole = random.integers(-100, 100, (3, 4))
    return [
        (x,),
        (x, 0),
        (x[0],),
        (x[:, :1], 1),
        (x.astype(np.float64), 1),
        (x.astype(np.float16), 0),
        (whole, 0),
        (whole * 2**55 + 1, 0),
        (whole.astype(np.int32),),
        (whole.astype(np.uint8),),
    ]


OPS = (
    Op(
        name="core.cumsum",
        summary="Adds up along an axis and gives the sum at every element; integers wrap around.",
        params=PARAMS,
        results=("y",),
        types=sum_types,
        reference=running_sum,
        lowering=lower_sum,
        example="y = cumsum(scores)",
        samples=samples,
    ),
    Op(
        name="core.diff",
        summary="Subtracts from every element along an axis the one before; one fewer is left.",
        params=PARAMS,
        results=("y",),
        types=difference_types,
        reference=differences,
        lowering=lower_differences,
        example="steps = diff(scores)",
        samples=samples,
    ),
)
