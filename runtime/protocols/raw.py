"""Tensors as raw bytes: row-major and little-endian; BYTES elements behind 4-byte lengths."""

from collections.abc import Sequence
from struct import pack, unpack_from
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .datatypes import Datatype

Buffer: TypeAlias = bytes | memoryview
Flat: TypeAlias = "NDArray[np.generic] | Sequence[str | bytes]"
"""A tensor's values without its shape: numbers as an array, BYTES as a sequence."""


class RawError(ValueError):
    """The bytes do not hold the tensor that was declared."""


def read_raw(buffer: Buffer, datatype: Datatype, count: int) -> Flat:
    """Read `count` elements, which must fill the buffer exactly.

    Numbers are a view of the buffer unless that is not aligned for them.
    """
    if not datatype.width:
        return _read_elements(buffer, count)
    if len(buffer) != count * datatype.width:
        raise RawError(
            f"{count} elements of {datatype.name} are {count * datatype.width} bytes, "
            f"but {len(buffer)} were sent"
        )
    flat: NDArray[np.generic] = np.frombuffer(buffer, datatype.numpy)
    return flat if flat.flags.aligned else flat.copy()


def _read_elements(buffer: Buffer, count: int) -> list[bytes]:
    if count * 4 > len(buffer):
        raise RawError(f"{count} elements of BYTES do not fit in the {len(buffer)} bytes sent")
    content = bytes(buffer)
    elements: list[bytes] = []
    start, end = 0, len(content)
    for _ in range(count):
        if start + 4 > end:
            raise RawError(f"the {len(content)} bytes sent hold fewer than {count} elements")
        (length,) = unpack_from("<I", content, start)
        start += 4
        if length > end - start:
            raise RawError("the length of an element of BYTES is more than the bytes that follow")
        elements.append(content[start : start + length])
        start += length
    if start != end:
        raise RawError(f"{end - start} bytes follow the {count} elements of BYTES declared")
    return elements


def write_raw(flat: Flat) -> bytes:
    """Write all elements one after the other."""
    if isinstance(flat, np.ndarray):
        return flat.tobytes()
    parts: list[bytes] = []
    for element in flat:
        content = element.encode() if isinstance(element, str) else element
        parts += (pack("<I", len(content)), content)
    return b"".join(parts)
