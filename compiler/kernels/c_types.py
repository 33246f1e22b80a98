"""Dtypes in generated C++: what a value is kept as, what it is computed as, and conversions.

Small floating-point dtypes are computed in f32 and rounded after each op, as NumPy does it; what
wraps around is computed without a sign, where C++ defines it.
"""

from typing import Final

import numpy as np

from ...dsl.types import DType
from ...stdlib.dtypes import integer_range, to_numpy
from ...stdlib.op import Array

SMALL: Final = frozenset({DType.F16, DType.BF16})
_NARROW: Final = frozenset({DType.I8, DType.I16, DType.U8, DType.U16})


def computed(dtype: DType, *, wraps: bool = False) -> str:
    """Return the C type that values of a dtype are computed as."""
    if wraps and dtype.is_integer:
        return "u64" if dtype in (DType.I64, DType.U64) else "u32"
    if dtype in SMALL:
        return "f32"
    return "i32" if dtype in _NARROW else dtype.value


def loaded(variable: str, dtype: DType, *, wraps: bool = False) -> str:
    """Return a variable that is kept as `dtype` as what it is computed as."""
    if dtype in SMALL:
        return f"widen({variable})"
    kind = computed(dtype, wraps=wraps)
    return variable if kind == dtype.value else f"({kind}){variable}"


def literal(value: Array, dtype: DType, *, wraps: bool = False) -> str:
    """Return one value (0-d, of the dtype) as what it is computed as."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype.is_integer:
        text = _integer(int(value), computed(dtype))
        return f"({computed(dtype, wraps=True)}){text}" if wraps else text
    if dtype is DType.F64:
        return _float(np.asarray(value, np.float64), np.uint64, "f64_of", "ull", "")
    return _float(np.asarray(value, np.float32), np.uint32, "f32_of", "u", "f")


def stored(value: Array, dtype: DType) -> str:
    """Return one value (0-d, of the dtype) as a table holds it."""
    if dtype in SMALL:
        return f"{{{int(value.view(np.uint16))}}}"
    return literal(value, dtype)


def converted(expression: str, source: DType, target: DType) -> str:
    """Return an expression of what `source` is computed as, as a value that is kept as `target`."""
    if target is DType.BOOL:
        return expression if source is DType.BOOL else f"({expression}) != 0"
    if target is DType.F16:
        exact = source in (DType.F32, DType.F64, *SMALL)
        return f"to_f16({expression})" if exact else f"to_f16((f32)({expression}))"
    if target is DType.BF16:
        return f"to_bf16((f32)({expression}))"
    if target.is_integer and source.is_float:
        low, high = (_integer(bound, computed(target)) for bound in integer_range(target))
        return f"saturate<{target.value}>((f64)({expression}), {low}, {high})"
    return f"({target.value})({expression})"


def bound(dtype: DType, *, lowest: bool) -> str:
    """Return the least or greatest value of a dtype, as what it is computed as."""
    if dtype.is_integer:
        low, high = integer_range(dtype)
        return _integer(low if lowest else high, computed(dtype))
    return literal(np.asarray(-np.inf if lowest else np.inf, to_numpy(dtype)), dtype)


def _integer(value: int, kind: str) -> str:
    suffix = {"i32": "", "u32": "u", "i64": "ll", "u64": "ull"}[kind]
    if value < 0:  # C++ has no negative literals, so that the least one would not fit
        return f"(-{-(value + 1)}{suffix} - 1)"
    return f"{value}{suffix}"


def _float(value: Array, bits: type, of_bits: str, bits_suffix: str, suffix: str) -> str:
    if np.isfinite(value):
        return f"({float(value).hex()}{suffix})"
    return f"{of_bits}({int(value.view(bits)):#x}{bits_suffix})"
