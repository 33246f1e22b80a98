"""Tensors as a model has them."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np

from .contents import DTYPES
from .dlpack import CPU, Lent, bfloat

TYPES = {
    "BOOL": 1,
    "UINT8": 2,
    "UINT16": 3,
    "UINT32": 4,
    "UINT64": 5,
    "INT8": 6,
    "INT16": 7,
    "INT32": 8,
    "INT64": 9,
    "FP16": 10,
    "FP32": 11,
    "FP64": 12,
    "BYTES": 13,
    "BF16": 14,
}
"""The numbers that Triton gives types."""

_OF_NUMPY: dict[Any, str] = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


_made = object.__new__


class TritonModelException(Exception):
    """What the functions of this module raise."""


class Tensor:
    """A name and values, in memory of the host. The array is not copied."""

    __slots__ = ("_datatype", "_name", "_values")

    def __init__(self, name: str, numpy_array: Any) -> None:
        if name and type(numpy_array) is np.ndarray:
            datatype = _OF_NUMPY.get(numpy_array.dtype)
            if datatype is not None:
                self._name, self._datatype, self._values = name, datatype, numpy_array
                return
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        if not isinstance(numpy_array, (np.ndarray, np.generic)):
            raise TypeError(
                f"Tensor() takes a NumPy array for {name!r}, not {type(numpy_array).__name__}"
            )
        values = np.asarray(numpy_array)
        if values.dtype.kind in "OSUT":
            datatype, values = "BYTES", values.astype(object, copy=False)
        else:
            if not values.dtype.isnative:
                values = values.astype(values.dtype.newbyteorder("="))
            datatype = _OF_NUMPY.get(values.dtype)
        if datatype is None:
            raise TritonModelException(f"NumPy type {values.dtype} of {name!r} is not supported.")
        self._name, self._datatype, self._values = name, datatype, values

    @staticmethod
    def received(name: str, datatype: str, values: Any) -> Tensor:
        """Return the tensor that a message holds."""
        one = _made(Tensor)
        one._name, one._datatype, one._values = name, datatype, values
        return one

    def packed(self) -> tuple[str, str, Any]:
        """Return what a message holds of it."""
        return self._name, self._datatype, self._values

    def name(self) -> str:
        return self._name

    def shape(self) -> list[int]:
        return list(self._values.shape)

    def triton_dtype(self) -> int:
        return TYPES[self._datatype]

    def is_cpu(self) -> bool:
        return True

    def as_numpy(self) -> Any:
        if self._datatype == "BF16":
            raise TritonModelException(
                "as_numpy() is not supported for bfloat16 tensors; use to_dlpack()"
            )
        return self._values

    def to_dlpack(self) -> Any:
        return self.__dlpack__()

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        if self._datatype == "BYTES":
            raise TritonModelException("DLPack does not have support for string tensors.")
        values: Any = self._values
        if not values.flags.writeable:  # NumPy lends no others
            values = values.copy()
        capsule = values.__dlpack__()
        return bfloat(capsule) if self._datatype == "BF16" else capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> Tensor:
        """Return a tensor of what another library has, which is copied only from a capsule's
        device; it must lie in C order."""
        if not hasattr(tensor, "__dlpack__") and type(tensor).__name__ != "PyCapsule":
            raise TritonModelException(
                "Provided tensor is not supported. Tensor must be a DLPack capsule or have "
                "`__dlpack__` and `__dlpack_device__` attributes"
            )
        lent = Lent(tensor)
        try:
            values = np.from_dlpack(lent)
        except (BufferError, RuntimeError, TypeError) as error:
            raise TritonModelException(f"{name!r} cannot be had by DLPack: {error}") from error
        if not values.flags.c_contiguous:
            raise TritonModelException(
                "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored "
                "in C-Order are supported."
            )
        made = Tensor(name, values)
        if lent.bfloat:
            made._datatype = "BF16"
        return made


kind_of = attrgetter("_name", "_datatype", "_values.shape")
"""Gives the name, type and shape of a tensor; each output is asked for it, so it is no function of
Python's."""

values_of = attrgetter("_values")
"""Gives the array of a tensor, whatever its type."""
