"""A tensor's values in JSON: nested lists in, a flat list out, and what JSON cannot say.

JSON has no NaN and no infinity: they are refused in a request and in an answer, and have to
travel as binary data. Strings are UTF-8, so BYTES that are not have to as well.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ...dsl.types import DType
from ..request import RequestError
from .datatypes import DATATYPES, Datatype
from .names import shown
from .raw import Flat, RawError, as_numbers
from .results import WireTensor

_DEEPEST = 8
_WHITE = b" \t\r\n"


def _decoders(element: type) -> tuple[msgspec.json.Decoder[Any], ...]:  # Any: of that type
    """Return decoders of lists of the element, nested 1 to `_DEEPEST` deep."""
    kinds: list[Any] = [element]  # Any: a type made at run time
    for _ in range(_DEEPEST):
        kinds.append(list[kinds[-1]])
    return tuple(msgspec.json.Decoder(kind) for kind in kinds[1:])


_BOOLS, _WHOLES, _REALS, _STRINGS = (_decoders(kind) for kind in (bool, int, float, str))
_DECODERS = {
    datatype.name: _STRINGS
    if not datatype.width
    else _BOOLS
    if dtype is DType.BOOL
    else _WHOLES
    if dtype.is_integer
    else _REALS
    for dtype, datatype in DATATYPES.items()
}


def read_json_values(text: memoryview, datatype: Datatype, count: int) -> Flat:
    """Read `count` values, flat or nested, of the element type that the datatype has in JSON."""
    depth = _depth(bytes(text[: _DEEPEST * 8]))
    if not 1 <= depth <= _DEEPEST:
        raise RawError(f"`data` is to be a list, nested at most {_DEEPEST} deep")
    try:
        values = _DECODERS[datatype.name][depth - 1].decode(text)
        flat = _flat(values, datatype)
    except (msgspec.ValidationError, ValueError) as error:
        raise RawError(f"`data` is not {datatype.name}: {error}") from None
    if len(flat) != count:
        raise RawError(f"the shape declares {count} elements, but `data` holds {len(flat)}")
    return flat


def check_elements(name: str, text: msgspec.Raw, most: int) -> None:
    """Raise RequestError where a text of JSON lists more elements than that: each becomes an object
    of its own, of many times the bytes that it has here."""
    if bytes(text).count(b",") >= most:
        raise RequestError(f"input {shown(name)} has more than {most} elements: send it as binary")


def _depth(start: bytes) -> int:
    depth = 0
    for byte in start:
        if byte == ord("["):
            depth += 1
        elif byte not in _WHITE:
            break
    return depth


def _flat(values: list[Any], datatype: Datatype) -> Flat:  # Any: nested JSON
    if not datatype.width:
        while values and isinstance(values[0], list):
            values = [value for inner in values for value in inner]
        return values
    return as_numbers(values, datatype).ravel()


def write_json_values(tensor: WireTensor) -> Sequence[bool | int | float | str]:
    """Return the values as a flat list that JSON can say."""
    flat = tensor.flat
    if isinstance(flat, np.ndarray):
        if flat.dtype.kind not in "biu":
            flat = flat.astype(np.float64)
            if not np.isfinite(flat).all():
                raise _unsayable(tensor, "holds NaN or infinity")
        return flat.ravel().tolist()
    try:
        return [value if isinstance(value, str) else value.decode() for value in flat]
    except UnicodeDecodeError:
        raise _unsayable(tensor, "holds bytes that are no UTF-8") from None


def _unsayable(tensor: WireTensor, why: str) -> RequestError:
    return RequestError(
        f"output `{tensor.name}` {why}, which JSON cannot say; ask for it with `binary_data`"
    )
