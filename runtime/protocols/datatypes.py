"""The datatypes of the protocol, and the types of the language and of NumPy they stand for."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import ml_dtypes
import numpy as np

from ...dsl.types import DType


@dataclass(frozen=True, slots=True)
class Datatype:
    """A datatype by its name on the wire. `width` is bytes an element, 0 for BYTES."""

    name: str
    numpy: np.dtype[np.generic]
    width: int


def _datatype(name: str, numpy: str | type) -> Datatype:
    dtype: np.dtype[np.generic] = np.dtype(numpy)
    return Datatype(name, dtype, dtype.itemsize)


BYTES = Datatype("BYTES", np.dtype(object), 0)
INT64 = _datatype("INT64", "<i8")

# The wire is little-endian, and so is every machine that runs ONNX Runtime.
DATATYPES: Mapping[DType, Datatype] = MappingProxyType(
    {
        DType.BOOL: _datatype("BOOL", "?"),
        DType.I8: _datatype("INT8", "i1"),
        DType.I16: _datatype("INT16", "<i2"),
        DType.I32: _datatype("INT32", "<i4"),
        DType.I64: INT64,
        DType.U8: _datatype("UINT8", "u1"),
        DType.U16: _datatype("UINT16", "<u2"),
        DType.U32: _datatype("UINT32", "<u4"),
        DType.U64: _datatype("UINT64", "<u8"),
        DType.F16: _datatype("FP16", "<f2"),
        DType.BF16: _datatype("BF16", ml_dtypes.bfloat16),
        DType.F32: _datatype("FP32", "<f4"),
        DType.F64: _datatype("FP64", "<f8"),
        DType.STRING: BYTES,
        DType.BYTES: BYTES,
    }
)
