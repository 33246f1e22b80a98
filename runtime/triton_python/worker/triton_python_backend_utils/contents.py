"""Tensors among the bytes of a message, and what its header says of them.

Each begins at a multiple of 64. Every size that comes is held against what is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

ALIGN = 64
RANK = 64  # sizes of a tensor at most

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype("<u2"),  # NumPy has none: its bits
}
"""The names of types as Triton's have them; BYTES beside them has no NumPy type of its own."""

if TYPE_CHECKING:  # an interpreter of a model may be older than this is
    Tensors = tuple[tuple[str, str, tuple[int, ...], int], ...]
    """What a message says of its tensors: name, type, sizes and bytes of each, in their order."""


class Malformed(Exception):
    """The other side does not keep to the protocol."""


def padded(size: int) -> int:
    """Return where the tensor behind one of so many bytes begins."""
    return -(-size // ALIGN) * ALIGN


def pack(tensors: Any, chunks: list[Any]) -> Tensors:
    """Return what a message says of tensors (name, type, array); their bytes join `chunks`."""
    told = []
    for name, datatype, values in tensors:
        content = content_of(datatype, values)
        chunks.append(content)
        told.append((name, datatype, values.shape, len(content)))
    return tuple(told)


def content_of(datatype: str, values: Any) -> Any:
    """Return the bytes of a tensor."""
    if datatype == "BYTES":
        return serialized(values)
    if values.flags.c_contiguous and values.size:
        return memoryview(values).cast("B")
    return values.tobytes()


class Place(NamedTuple):
    """Where a tensor lies among the bytes of a message, and of what NumPy type (None: texts) and
    sizes it is, with so many `elements`."""

    start: int
    size: int
    dtype: Any
    shape: tuple[int, ...]
    elements: int


class Places(NamedTuple):
    """Names, types and places of the tensors of one message, and where the last of them ends."""

    named: list[tuple[str, str, Place]]
    end: int

    @staticmethod
    def of(told: Any) -> Places:
        """Return the places of what `pack` has told; raises Malformed."""
        named: list[tuple[str, str, Place]] = []
        end = 0
        try:
            for name, datatype, shape, size in told:
                if type(name) is not str or type(size) is not int or size < 0:
                    raise Malformed(f"{size} bytes of {name!r} are no tensor")
                dtype, count = None if datatype == "BYTES" else DTYPES[datatype], 1
                for one in shape:
                    if type(one) is not int or one < 0:
                        raise Malformed(f"{shape} is no shape")
                    count *= one
                if len(shape) > RANK or (dtype is not None and count * dtype.itemsize != size):
                    raise Malformed(f"{size} bytes for {datatype} {shape}")
                start = padded(end)
                end = start + size
                named.append((name, datatype, Place(start, size, dtype, tuple(shape), count)))
        except (TypeError, ValueError, KeyError) as error:
            raise Malformed(f"what is said of a tensor is wrong: {error}") from None
        return Places(named, end)

    def arrays(self, content: Any) -> list[tuple[str, str, Any]]:
        """Return names, types and values of tensors; raises Malformed."""
        if self.end > len(content):
            raise Malformed(f"{self.end - len(content)} bytes of tensors are not there")
        try:
            return [
                (name, datatype, array_in(content, *place)) for name, datatype, place in self.named
            ]
        except (ValueError, OverflowError) as error:
            raise Malformed(f"what is said of a tensor is wrong: {error}") from None


def array_in(
    content: Any, start: int, size: int, dtype: Any, shape: tuple[int, ...], count: int
) -> Any:
    """Return the tensor of a place that is there; raises Malformed where its texts are not."""
    if dtype is None:
        texts = deserialized(memoryview(content)[start : start + size])
        if len(texts) != count:
            raise Malformed(f"{len(texts)} texts for {list(shape)}")
        return texts.reshape(shape)
    if not size:
        return np.empty(shape, dtype)
    return np.frombuffer(content, dtype, count, start).reshape(shape)


def serialized(values: Any) -> bytes:
    """Return texts as Triton has them: each behind its length, of four bytes."""
    parts = []
    for text in _encoded(values):
        parts += (len(text).to_bytes(4, "little"), text)
    return b"".join(parts)


def copied(datatype: str, values: Any) -> Any:
    """Return what the other end of a message would have of a tensor: an array of its own."""
    if datatype != "BYTES":
        return values.copy()
    found = np.empty(values.size, object)
    found[:] = _encoded(values)
    return found.reshape(values.shape)


def _encoded(values: Any) -> list[bytes]:
    found = values.ravel().tolist()
    return [bytes(one) if isinstance(one, bytes) else str(one).encode() for one in found]


def deserialized(content: Any) -> Any:
    """Return the texts of their serialized form, in one axis; raises Malformed."""
    found, at, end = [], 0, len(content)
    while at < end:
        length = int.from_bytes(content[at : at + 4], "little")
        at += 4 + length
        if at > end:
            raise Malformed("a text reaches beyond the end")
        found.append(bytes(content[at - length : at]))
    values = np.empty(len(found), object)
    values[:] = found
    return values
