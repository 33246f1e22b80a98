"""The language's dtypes in NumPy and in ONNX."""

from typing import Any, Final

import ml_dtypes
import numpy as np

from ..dsl.types import DType

DEFAULT_INTEGER: Final = DType.I64
DEFAULT_FLOAT: Final = DType.F32
"""The dtypes of number literals with no other side to take one from."""

# Any: np.dtype is generic in its scalar type, which a table of all of them cannot name.
_NUMPY: Final[dict[DType, "np.dtype[Any]"]] = {
    DType.BOOL: np.dtype(np.bool_),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.STRING: np.dtype(object),
    DType.BYTES: np.dtype(object),
}
_DTYPES: Final = {numpy: dtype for dtype, numpy in _NUMPY.items() if numpy != np.dtype(object)}

# The numbers of onnx.TensorProto.DataType; importing onnx for them would cost 100 ms.
_ONNX: Final = {
    DType.F32: 1,
    DType.U8: 2,
    DType.I8: 3,
    DType.U16: 4,
    DType.I16: 5,
    DType.I32: 6,
    DType.I64: 7,
    DType.STRING: 8,
    DType.BOOL: 9,
    DType.F16: 10,
    DType.F64: 11,
    DType.U32: 12,
    DType.U64: 13,
    DType.BF16: 16,
}


def to_numpy(dtype: DType) -> "np.dtype[Any]":  # Any: as in the table
    """Return the NumPy dtype; strings and bytes are kept in object arrays."""
    return _NUMPY[dtype]


def from_numpy(dtype: "np.dtype[Any]") -> DType | None:  # Any: as in the table
    """Return the language's dtype, None for one it lacks and for object arrays."""
    return _DTYPES.get(dtype)


def to_onnx(dtype: DType) -> int:
    """Return the number of an ONNX tensor's element type; bytes are strings there."""
    return _ONNX[DType.STRING if dtype is DType.BYTES else dtype]


def integer_range(dtype: DType) -> tuple[int, int]:
    """Return the least and greatest value of an integer dtype."""
    info = np.iinfo(_NUMPY[dtype])
    return int(info.min), int(info.max)
