"""Capsules of DLPack that hold bfloat16, which NumPy has not: it lends and takes the bits, and what
the capsule says of their type is changed.

A capsule's `DLTensor` begins with a pointer, a device of two int32 and the number of axes; then
come code, bits and lanes of its type. It is the consumer's once the capsule has been given.
"""

from __future__ import annotations

import ctypes
from typing import Any

CPU = (1, 0)  # DLPack's device

_UNSIGNED, _BFLOAT = 1, 4  # DLPack's codes of types
_CODE = 20  # where that of a DLTensor is, in bytes
_TENSORS = {b"dltensor": 0, b"dltensor_versioned": 32}  # where a capsule of each name has it

_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)


class Lent:
    """What another library lends, as NumPy can take it: a capsule, or what gives one. `bfloat` is
    whether the bits that NumPy has taken are of bfloat16."""

    def __init__(self, tensor: Any) -> None:
        self._tensor, self.bfloat = tensor, False

    def __dlpack__(self, **asked: Any) -> Any:
        lends = hasattr(self._tensor, "__dlpack__")
        capsule = self._tensor.__dlpack__(**asked) if lends else self._tensor
        code = _code(capsule)
        self.bfloat = code is not None and code.value == _BFLOAT
        if code is not None and self.bfloat:
            code.value = _UNSIGNED
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        lends = hasattr(self._tensor, "__dlpack_device__")
        return self._tensor.__dlpack_device__() if lends else CPU


def bfloat(capsule: Any) -> Any:
    """Return a capsule of whole numbers of 16 bits as one of bfloat16."""
    code = _code(capsule)
    assert code is not None  # it is NumPy's, and nobody has taken it
    code.value = _BFLOAT
    return capsule


def _code(capsule: Any) -> ctypes.c_uint8 | None:
    """Return the code of a capsule's type; none of one that is taken or none."""
    for name, start in _TENSORS.items():
        if _is_valid(capsule, name):
            return ctypes.c_uint8.from_address(_pointer(capsule, name) + start + _CODE)
    return None
