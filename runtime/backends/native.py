"""Functions of shared libraries, through the C interface of `headrace.h`.

A library travels in the plan and is code of the plan like its Python, but it cannot be contained:
what it writes outside of its outputs ends the process. Nothing that it is given is read back but
outputs, whose memory is ours, and the message, which is cut at its size.
"""

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import numpy as np

from ...dsl.types import DType
from ...stdlib.dtypes import to_numpy
from ...stdlib.op import Array
from ..load_error import BAD_MODEL, OTHER_MODEL, LoadError
from ..model_backend import Model, Port, model_backend
from ..stage import StageError

ABI: Final = 1
_MESSAGE: Final = 512
_MOST_AXES: Final = 64
_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT: Final = 4


class _Type(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("rank", ctypes.c_int32),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("type", _Type),
    )


_Output = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_int64),
)


class _Call(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("input_count", ctypes.c_uint32),
        ("output_count", ctypes.c_uint32),
        ("message_size", ctypes.c_uint32),
        ("inputs", ctypes.POINTER(_Tensor)),
        ("outputs", ctypes.POINTER(_Type)),
        ("message", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("output", _Output),
    )


class NativeSession:
    """One function. ctypes lets go of the interpreter while it runs."""

    def __init__(self, model: Model, function: Any) -> None:  # Any: ctypes has no type for it
        self._model, self._function = model, function
        self._types = [
            _type(to_numpy(cast("DType", one.dtype)), len(one.dims or ())) for one in model.outputs
        ]

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        given = [feeds[port.name] for port in self._model.inputs]
        arrays = [np.require(array, requirements=("ALIGNED",)) for array in given]
        outputs = _Outputs(self._model.outputs)
        message = ctypes.create_string_buffer(_MESSAGE)
        call = _Call(
            ABI,
            len(arrays),
            len(self._model.outputs),
            _MESSAGE,
            (_Tensor * max(1, len(arrays)))(*map(_tensor, arrays)),
            (_Type * len(self._types))(*self._types),
            ctypes.addressof(message),
            None,
            _Output(outputs.make),
        )
        status = self._function(ctypes.byref(call))
        if outputs.refused:
            raise StageError(f"`{self._model.entry}`: {outputs.refused}")
        if status != 0:
            said = message.raw.partition(b"\0")[0].decode("utf-8", "replace")
            raise StageError(f"`{self._model.entry}` failed: {said or f'status {status}'}")
        return outputs.all(self._model.entry)

    def close(self) -> None:
        """Nothing to do: a library stays loaded, for its threads may run on."""


class _Outputs:
    """What a call has asked memory for."""

    def __init__(self, ports: Sequence[Port]) -> None:
        self.refused = ""
        self._ports = ports
        self._made: list[Array | None] = [None] * len(ports)

    def make(self, _call: int, index: int, rank: int, shape: Any) -> int:  # Any: a ctypes pointer
        """Return the address of an output's memory; 0 where it is refused."""
        try:
            array = self._array(index, rank, shape)
        except (_Refused, MemoryError, ValueError) as error:
            self.refused = self.refused or str(error) or "memory is short"
            return 0
        self._made[index] = array
        return array.ctypes.data

    def _array(self, index: int, rank: int, shape: Any) -> Array:  # Any: as in `make`
        if index >= len(self._ports):
            raise _Refused(f"it gives output {index} of {len(self._ports)}")
        port = self._ports[index]
        dims = port.dims or ()
        if self._made[index] is not None:
            raise _Refused(f"it gives `{port.name}` a shape twice")
        if rank != len(dims):
            raise _Refused(f"it gives `{port.name}` {rank} axes, and {port} is declared")
        sizes = tuple(int(shape[axis]) for axis in range(rank)) if shape or not rank else None
        if sizes is None or any(size < 0 for size in sizes):
            raise _Refused(f"it gives `{port.name}` sizes that are none")
        if any(want not in (None, size) for want, size in zip(dims, sizes, strict=True)):
            raise _Refused(
                f"it gives `{port.name}` the shape {list(sizes)}, and {port} is declared"
            )
        dtype = to_numpy(cast("DType", port.dtype))  # it is declared
        # zeros, so that what it leaves unwritten tells nothing of other requests
        return np.zeros(sizes, dtype)

    def all(self, entry: str) -> list[Array]:
        for port, array in zip(self._ports, self._made, strict=True):
            if array is None:
                raise StageError(f"`{entry}` did not give `{port.name}`")
        return cast("list[Array]", self._made)  # none is missing


class _Refused(Exception):
    """Memory for what is not declared."""


def _tensor(array: Array) -> _Tensor:
    axes = ctypes.c_int64 * max(1, array.ndim)
    kind = _type(array.dtype, array.ndim)
    return _Tensor(array.ctypes.data, axes(*array.shape), axes(*array.strides), kind)


def _type(dtype: "np.dtype[Any]", rank: int) -> _Type:  # Any: of any scalar
    return _Type(_CODES.get(dtype.kind, _BFLOAT), dtype.itemsize * 8, 1, rank)


def open_native(model: Model) -> NativeSession:
    """Return the session of a symbol; raises LoadError for what is no library of this interface."""
    for port in (*model.inputs, *model.outputs):
        if port.dtype in (DType.STRING, DType.BYTES):
            message = f"`{model.entry}` cannot be given text, and {port} is declared"
            raise LoadError(OTHER_MODEL, message, "declare numbers, such as u8[N] for bytes")
    library = _load(model)
    try:
        abi = library.headrace_abi
        function = getattr(library, model.entry)
    except AttributeError as error:
        missing = "headrace_abi" if not hasattr(library, "headrace_abi") else model.entry
        help = "write HEADRACE_LIBRARY once, and HEADRACE_FUNCTION(name), as headrace.h says"
        raise LoadError(BAD_MODEL, f"the library has no symbol `{missing}`", help) from error
    abi.restype, abi.argtypes = ctypes.c_uint32, ()
    if (found := abi()) != ABI:
        message = f"the library is made for form {found} of headrace.h, and this is {ABI}"
        raise LoadError(BAD_MODEL, message, "compile it again with the header of this headrace")
    function.restype, function.argtypes = ctypes.c_int, (ctypes.POINTER(_Call),)
    return NativeSession(model, function)


def _load(model: Model) -> ctypes.CDLL:
    """Load a library from a file that is gone when it is: nobody can put another in its place."""
    with TemporaryDirectory(prefix="headrace-") as folder:
        path = os.path.join(folder, "library.so")  # noqa: PTH118 - what ctypes takes
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(model.content)
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            said = str(error).replace(path, "it").removeprefix("it: ")
            message = f"`{model.entry}`: its library cannot be loaded: {said}"
            help = f"it must be a shared library for {sys.platform} and this processor"
            raise LoadError(BAD_MODEL, message, help) from error


BACKEND = model_backend(open_native, ("native",))
