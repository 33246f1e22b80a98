"""How a session of ONNX Runtime is run on the host's arrays, some of which it takes amiss: bytes
for text, and bf16, which NumPy has from elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from ctypes import memmove
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from ..dsl.types import DType
from ..stdlib.dtypes import to_numpy, to_onnx
from ..stdlib.op import Array
from .stage import StageError

Run: TypeAlias = "Callable[[Mapping[str, Array]], list[Array]]"

_BF16: Final = "tensor(bfloat16)"
_TEXT: Final = "tensor(string)"
_DECODE: Final = np.frompyfunc(lambda one: one.decode() if isinstance(one, bytes) else one, 1, 1)


# Any: an untyped module and what it makes, here and below
def runner(runtime: Any, session: Any, names: Sequence[str], options: Any) -> Run:
    """Return what runs a session; most are called as they are.

    What a session of ONNX Runtime does around its run is to look for inputs that are missing, and
    to try other providers, which nobody has asked for, when one fails. With all inputs a small run
    takes three quarters of the time without.
    """
    inputs, names, inner = session.get_inputs(), list(names), getattr(session, "_sess", session)
    needed = {one.name for one in inputs if not one.type.startswith("optional")}

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        return (inner if feeds.keys() >= needed else session).run(names, feeds, options)

    if any(one.type == _BF16 for one in (*inputs, *session.get_outputs())):
        run = partial(_run_values, runtime, session, names, options)
    if any(one.type == _TEXT for one in inputs):
        run = partial(_with_text, run)
    return run


def _with_text(run: Run, feeds: Mapping[str, Array]) -> list[Array]:
    """Run with bytes as the text that they are: ONNX Runtime would take b'a' for "b'a'"."""
    try:
        given = {
            name: np.asarray(_DECODE(one), object) if one.dtype == object else one
            for name, one in feeds.items()
        }
    except UnicodeDecodeError as error:
        raise StageError(f"bytes for the model are no text: {error}") from error
    return run(given)


def _run_values(
    runtime: Any, session: Any, names: Sequence[str], options: Any, feeds: Mapping[str, Array]
) -> list[Array]:
    """Run a model with bf16, of which ONNX Runtime's arrays are none, on values of its own."""
    bfloat = to_numpy(DType.BF16)
    values = {
        name: runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            np.ascontiguousarray(array).view(np.uint16), to_onnx(DType.BF16)
        )
        if array.dtype == bfloat
        else runtime.OrtValue.ortvalue_from_numpy(array)
        for name, array in feeds.items()
    }
    return [
        _copied(one, bfloat) if one.data_type() == _BF16 else one.numpy()
        for one in session.run_with_ort_values(names, values, options)
    ]


def _copied(value: Any, dtype: "np.dtype[Any]") -> Array:  # Any: an OrtValue, of any scalar
    shape = tuple(value.shape())
    found = np.empty(shape, dtype)
    if found.size:
        memmove(found.ctypes.data, value.data_ptr(), found.nbytes)
    return found
