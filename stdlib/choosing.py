"""The parts that `argmax` and `argmin` are made of, under whatever family they stand."""

from collections.abc import Sequence

import numpy as np

from ..dsl.dims import Dims
from ..dsl.types import DType, TensorType, Type
from .constants import axis, constant_bool
from .elementwise import Function
from .lowering import nan_flags, reduce, require, tensor_type, with_nan
from .op import Argument, Array, Emitter, Item, Lowering, Op, Operand, OpTypeError, Param, Sample
from .rules import number
from .values import array, integer

PARAMS = (
    Param("x", "A tensor of numbers."),
    Param("axis", "The axis to search; the last when left out.", True, True, default=-1),
    Param("keepdims", "Keep the axis, with size 1.", True, has_default=True, default=False),
)
KERNELS = frozenset({DType.U8, DType.I8, DType.I32, DType.I64, DType.F32, DType.F64})


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = number(arguments[0], "x", dims)
    if not found.dims:
        raise OpTypeError("x", f"a tensor with an axis, not {found}")
    place = axis(arguments[1], "axis", found)
    middle = (1,) if constant_bool(arguments[2], "keepdims") else ()
    return (TensorType(DType.I64, (*found.dims[:place], *middle, *found.dims[place + 1 :])),)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.integers(-3, 3, (3, 4, 5)).astype(np.float32)
    nan = x.copy()
    nan[1, 2:, 3] = np.nan
    nan[0, 1, 1:3] = np.nan
    return [
        (nan,),
        (nan, 1),
        (x,),
        (x, 0),
        (x, 1, True),
        (x, -2),
        (x[0, 0],),
        (x.astype(np.int64), 1),
        (x.astype(np.float64),),
        (x.astype(np.float16),),
        (np.zeros((2, 3), np.float32),),
    ]


def lowered(op_type: str) -> Lowering:
    def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
        found = tensor_type(operands[0].type)
        require(found.dtype, KERNELS, op_type)
        place = emit.axis(integer(operands[1].literal), len(found.dims))
        keepdims = bool(operands[2].literal)
        x = emit.tensor(operands[0])
        chosen = emit.node(op_type, [x], axis=place, keepdims=int(keepdims))
        if not found.dtype.is_float:
            return chosen
        # ONNX Runtime's kernels pass over NaN, which NumPy chooses first.
        (flags,) = nan_flags(emit, x)
        (any_nan,) = reduce(emit, "ReduceMax", flags, [place], keepdims)
        (first,) = emit.node("ArgMax", [flags], axis=place, keepdims=int(keepdims))
        return with_nan(emit, any_nan, first, *chosen)

    return lower


def choosing_op(name: str, op_type: str, apply: Function, summary: str) -> Op:
    """Make an op that gives the index of the element that `apply` chooses along an axis."""

    def reference(x: Item, axis: int, keepdims: bool) -> Array:
        value = array(x)
        if value.shape[axis] == 0:
            raise ValueError(f"axis {axis} of shape {list(value.shape)} has nothing to choose from")
        return np.asarray(apply(value, axis=axis, keepdims=keepdims), np.int64)

    return Op(
        name=name,
        summary=summary,
        params=PARAMS,
        results=("index",),
        types=types,
        reference=reference,
        lowering=lowered(op_type),
        example=f"best = {name.removeprefix('core.')}(scores)",
        samples=samples,
    )
