"""Changing the dtype."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_dtype
from ..dtypes import from_numpy, integer_range, to_numpy, to_onnx
from ..lowering import tensor_type
from ..op import Argument, Array, Decline, Emitter, Kernel, Op, Operand, OpTypeError, Param, Sample
from ..rules import tensor
from ..values import array

TEXT = (DType.STRING, DType.BYTES)
NARROW = (DType.I8, DType.U8, DType.I16, DType.U16)
"""Integers whose bounds every floating-point dtype but the 16-bit ones holds exactly."""


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    dtype = constant_dtype(arguments[1], "dtype")
    if found.dtype in TEXT and dtype is not found.dtype:
        raise OpTypeError("x", f"numbers or bools, not {found}: text is not converted")
    if dtype in TEXT and dtype is not found.dtype:
        raise OpTypeError("dtype", f"a dtype of numbers or bool, not {dtype.value}")
    return (TensorType(dtype, found.dims),)


def reference(x: Array, dtype: DType) -> Array:
    value = array(x)
    target = to_numpy(dtype)
    source = from_numpy(value.dtype)
    with np.errstate(all="ignore"):
        if source is not None and source.is_float and dtype.is_integer:
            return saturated(value, dtype)
        return value.astype(target, copy=False)


def saturated(value: Array, dtype: DType) -> Array:
    """Round towards zero; what is out of range becomes the nearest bound and NaN becomes 0."""
    low, high = integer_range(dtype)
    wide = value.astype(np.float64)
    # float(2**63 - 1) is 2**63, which no i64 holds: compare first, convert what is inside.
    over, under = wide >= high, wide <= low
    inside = ~(over | under | np.isnan(wide))
    result = np.where(inside, wide, 0).astype(to_numpy(dtype))
    np.copyto(result, high, where=over)
    np.copyto(result, low, where=under)
    return result


def lower(emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]) -> tuple[str, ...]:
    source = tensor_type(operands[0].type).dtype
    target = tensor_type(results[0]).dtype
    if DType.BF16 in (source, target):
        raise Decline("bf16 is rounded differently from one runtime to another")
    x = emit.tensor(operands[0])
    if source is target:
        return emit.node("Identity", [x])
    if source.is_float and target.is_integer:
        if target not in NARROW or source not in (DType.F32, DType.F64):
            raise Decline(f"ONNX leaves {source.value} beyond {target.value} undefined")
        low, high = (np.array(bound, to_numpy(source)) for bound in integer_range(target))
        bounded = emit.node("Clip", [x, emit.constant(low), emit.constant(high)])
        zero = emit.constant(np.zeros((), to_numpy(source)))
        x = emit.node("Where", [*emit.node("IsNaN", [x]), zero, *bounded])[0]
    return emit.node("Cast", [x], to=to_onnx(target))


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 200, (3, 4)).astype(np.float32)
    edges = np.array([np.nan, np.inf, -np.inf, -0.5, 255.9, 256.0, 2**31, 2**63, -(2**63)])
    i = random.integers(-300, 300, (2, 3))
    flags = i > 0
    targets = (DType.U8, DType.I8, DType.I32, DType.I64, DType.F16, DType.F64, DType.BOOL)
    return [
        *((x, dtype) for dtype in targets),
        *((edges.astype(np.float32), dtype) for dtype in targets),
        *((edges, dtype) for dtype in (*targets, DType.F32)),
        *((i, dtype) for dtype in (DType.U8, DType.F32, DType.F64, DType.BOOL, DType.U64)),
        *((flags, dtype) for dtype in (DType.U8, DType.F32)),
        (x[0, 0], DType.BF16),
        (x.astype(np.float16), DType.F32),
        (3, DType.F32),
        (0.5, DType.F64),
    ]


OP = Op(
    name="core.cast",
    summary="Converts numbers and bools to another dtype. "
    "Floating point to integer rounds towards zero, stops at the integer's bounds and makes NaN 0; "
    "integer to integer keeps the low bits.",
    params=(
        Param("x", "Numbers or bools."),
        Param("dtype", "The dtype to convert to.", constant=True),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    example="y = cast(x, f16)",
    kernel=Kernel("{0}", converts=True),
    samples=samples,
)
