"""Values known when compiling, as JSON: exact, and nothing that is unpickled or evaluated.

None, bools, strings, finite floats and integers of 64 bits are themselves; a tuple is an array.
All else is an object with one tag: `{"float": "7ff8000000000000"}` (a float that JSON has no word
for, as its eight bytes), `{"int": "0x1f..."}`, `{"bytes": ...}`, `{"dtype": "f32"}`,
`{"array": ...}`. Long byte strings become attachments.
"""

import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import TypeAlias

import ml_dtypes
import numpy as np

from ..dsl.types import DType
from ..stdlib.op import Array, Literal

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
INLINE_BYTES = 1024  # longer byte strings become attachments
MAX_RANK = 32

NUMERIC: tuple[str, ...] = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


class Malformed(Exception):
    """Something in a plan's JSON is not of the form that its type asks for."""


class Attachments:
    """Byte strings kept beside the JSON, by SHA-256 digest."""

    def __init__(self, contents: Mapping[str, bytes] | None = None) -> None:
        self.contents = dict(contents or {})

    def encode(self, content: bytes) -> Json:
        """Return the content itself when it is short, else store it and return its digest."""
        if len(content) <= INLINE_BYTES:
            return b64encode(content).decode("ascii")
        digest = sha256(content).hexdigest()
        self.contents[digest] = content
        return {"blob": digest}

    def decode(self, json: Json) -> bytes:
        """Return the bytes that `encode` was given; raises Malformed."""
        match json:
            case str():
                try:
                    return b64decode(json, validate=True)
                except ValueError as error:
                    raise Malformed("wants base64") from error
            case {"blob": str(digest)} if len(json) == 1 and digest in self.contents:
                return self.contents[digest]
            case {"blob": str(digest)} if len(json) == 1:
                raise Malformed(f"names the missing blob {digest[:12]!r}")
            case _:
                raise Malformed("wants bytes")


def encode_int(value: int) -> Json:
    return value if value.bit_length() <= 64 else {"int": hex(value)}


def decode_int(json: Json) -> int:
    match json:
        case bool():
            pass
        case int():
            return json
        case {"int": str(digits)} if len(json) == 1:
            try:
                return int(digits, 16)
            except ValueError:
                pass
        case _:
            pass
    raise Malformed("wants an integer")


def encode_float(value: float) -> Json:
    value = float(value)
    return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}


def decode_float(json: Json) -> float:
    match json:
        case float():
            return json
        case {"float": str(digits)} if len(json) == 1:
            try:
                (value,) = struct.unpack(">d", bytes.fromhex(digits))
                return float(value)
            except (ValueError, struct.error):
                pass
        case _:
            pass
    raise Malformed("wants a float")


def encode_literal(value: "Literal | np.generic", attachments: Attachments) -> Json:
    """Return the JSON of a literal; a value that no literal can be is a TypeError (our bug)."""
    match value:
        case None | bool() | str():
            return value
        case np.generic() | np.ndarray():
            return {"array": _encode_array(value, attachments)}
        case int():
            return encode_int(value)
        case float():
            return encode_float(value)
        case bytes():
            return {"bytes": attachments.encode(value)}
        case DType():
            return {"dtype": value.value}
        case tuple():
            return [encode_literal(item, attachments) for item in value]
        case _:
            raise TypeError(f"a plan cannot hold a {type(value).__name__}")


def decode_literal(json: Json, attachments: Attachments) -> Literal:
    """Return the literal; arrays are read-only. Raises Malformed."""
    match json:
        case None | bool() | str() | float():
            return json
        case int():
            return json
        case list():
            return tuple(decode_literal(item, attachments) for item in json)
        case {"int": _}:
            return decode_int(json)
        case {"float": _}:
            return decode_float(json)
        case {"bytes": content} if len(json) == 1:
            return attachments.decode(content)
        case {"dtype": str(name)} if len(json) == 1 and name in {d.value for d in DType}:
            return DType(name)
        case {"array": array} if len(json) == 1:
            return _decode_array(array, attachments)
        case _:
            raise Malformed("wants a literal")


def _encode_array(value: "Array | np.generic", attachments: Attachments) -> Json:
    shape: list[Json] = [*value.shape]
    array = np.asarray(value)
    if array.dtype == np.object_:
        items = [encode_literal(item, attachments) for item in array.ravel().tolist()]
        return {"dtype": "object", "shape": shape, "data": items}
    if array.dtype.name not in (*NUMERIC, "bfloat16"):
        raise TypeError(f"a plan cannot hold an array of {array.dtype}")
    scalar = {"scalar": True} if isinstance(value, np.generic) else {}
    content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    data = attachments.encode(content)
    return {"dtype": array.dtype.name, "shape": shape, "data": data, **scalar}


def _decode_array(json: Json, attachments: Attachments) -> Array:
    match json:
        case {"dtype": "object", "shape": list(shape), "data": list(items)} if len(json) == 3:
            texts = [decode_literal(item, attachments) for item in items]
            if not all(isinstance(text, str | bytes) for text in texts):
                raise Malformed("wants strings or bytes in an array of objects")
            array = np.empty(len(texts), np.object_)
            array[:] = texts
            return _shaped(array, shape)
        case {"dtype": str(name), "shape": list(shape), "data": data, **rest} if name in (
            *NUMERIC,
            "bfloat16",
        ) and rest in ({}, {"scalar": True}):
            content = attachments.decode(data)
            dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name).newbyteorder("<")
            if len(content) % dtype.itemsize:
                raise Malformed(f"wants whole items of {name}")
            if name == "bool" and content.strip(b"\0\1"):
                raise Malformed("wants bools of 0 and 1")
            array = _shaped(np.frombuffer(content, dtype), shape)
            return array[()] if rest and array.ndim == 0 else array
        case _:
            raise Malformed("wants an array")


def _shaped(flat: Array, shape: list[Json]) -> Array:
    sizes = [decode_int(size) for size in shape]
    if min(sizes, default=0) < 0 or len(sizes) > MAX_RANK or math.prod(sizes) != flat.size:
        raise Malformed(f"has {flat.size} items that do not fill the shape {sizes}")
    array = flat.reshape(sizes)
    array.flags.writeable = False
    return array
