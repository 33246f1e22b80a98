"""Tensors as raw bytes: row-major and little-endian; BYTES elements behind 4-byte lengths."""

from collections.abc import Sequence
from struct import pack, unpack_from
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .datatypes import Datatype

Flat: TypeAlias = "NDArray[np.generic] | Sequence[str | bytes]"
"""A tensor's values without its shape: numbers as an array, BYTES as a sequence."""

Buffer: TypeAlias = bytes | memoryview
"""Bytes as they were sent, or are to be: a view where they are many."""

LARGE = 1 << 16
"""Bytes from which on a view is worth more than it costs."""


class RawError(ValueError):
    """The bytes do not hold the tensor that was declared."""


def read_raw(buffer: Buffer, datatype: Datatype, count: int) -> Flat:
    """Read `count` elements, which must fill the buffer exactly.

    Numbers are a view of it, or a copy where they do not stand at a multiple of their width.
    """
    width = datatype.width
    if not width:
        return _read_elements(buffer, count)
    if len(buffer) != count * width:
        raise RawError(
            f"{count} elements of {datatype.name} are {count * width} bytes, "
            f"but {len(buffer)} were sent"
        )
    numbers = np.frombuffer(buffer, datatype.numpy)
    if isinstance(buffer, bytes) or numbers.flags.aligned:  # as bytes always are
        return numbers
    return numbers.copy()


def _read_elements(buffer: Buffer, count: int) -> list[bytes]:
    if count * 4 > len(buffer):
        raise RawError(f"{count} elements of BYTES do not fit in the {len(buffer)} bytes sent")
    elements: list[bytes] = []
    start, end = 0, len(buffer)
    for _ in range(count):
        if start + 4 > end:
            raise RawError(f"the {len(buffer)} bytes sent hold fewer than {count} elements")
        (length,) = unpack_from("<I", buffer, start)
        start += 4
        if length > end - start:
            raise RawError("the length of an element of BYTES is more than the bytes that follow")
        elements.append(bytes(buffer[start : start + length]))
        start += length
    if start != end:
        raise RawError(f"{end - start} bytes follow the {count} elements of BYTES declared")
    return elements


def as_numbers(
    values: Sequence[Any],  # Any: numbers, or lists of them
    datatype: Datatype,
) -> NDArray[np.generic]:
    """Return numbers, of which each must fit in the datatype; raises RawError.

    Where the datatype has a fraction they are rounded to it, but not to infinity.
    """
    try:
        with np.errstate(over="raise"):
            array = np.array(values, datatype.numpy)
    except (OverflowError, FloatingPointError):
        raise RawError(f"a value does not fit in {datatype.name}") from None
    if datatype.width == 2 and array.dtype.kind not in "iu":  # BF16 goes to infinity silently
        lost = np.isinf(array) & ~np.isinf(np.array(values, np.float64))
        if lost.any():
            raise RawError(f"a value does not fit in {datatype.name}")
    return array


def raw_buffer(flat: Flat) -> Buffer:
    """Return what `write_raw` does; of a large array a view where it lies as it is to be sent."""
    if not isinstance(flat, np.ndarray):
        return write_raw(flat)
    if flat.nbytes >= LARGE and flat.flags.c_contiguous:
        return flat.reshape(-1).view(np.uint8).data
    return flat.tobytes()


def write_raw(flat: Flat) -> bytes:
    """Write all elements one after the other."""
    if isinstance(flat, np.ndarray):
        return flat.tobytes()
    parts: list[bytes] = []
    for element in flat:
        content = element.encode() if isinstance(element, str) else element
        parts += (pack("<I", len(content)), content)
    return b"".join(parts)
