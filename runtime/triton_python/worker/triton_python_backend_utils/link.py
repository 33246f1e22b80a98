"""Messages between an engine and a worker: a header in JSON, and the bytes of tensors behind it.

    head (magic, version, where the bytes are, two lengths) | header | bytes

Up to INLINE bytes of tensors go through the socket; more are in a memfd whose descriptor comes
along, sealed so that nobody can make it shorter under its reader, who maps it without a copy. Each
tensor begins at a multiple of 64. Either side may send at any time; nothing is unpickled, and every
length that comes is held against what is there.
"""

from __future__ import annotations

import array
import fcntl
import json
import mmap
import os
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

INLINE = 1 << 16
LIMIT = 1 << 33  # bytes of one message
_HEADER = 1 << 26
_MAGIC = b"hrtp"
_HEAD = struct.Struct("<4sHHIxxxxQ")
_VERSION = 1
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_ALIGN = 64

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


class Malformed(Exception):
    """The other side does not keep to the protocol."""


class Link:
    """One end of the socket. Any thread may send; one at a time receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()

    def send(self, header: dict[str, Any], chunks: Sequence[Any] = ()) -> None:
        """Send a header, of what JSON has, and the bytes of tensors, as `pack` gives both."""
        text = json.dumps(header).encode()
        size = sum(_padded(len(one)) for one in chunks)
        if size > LIMIT or len(text) > _HEADER:
            raise ValueError(f"{size} bytes are more than one message may have, {LIMIT}")
        if size <= INLINE:
            parts = [_HEAD.pack(_MAGIC, _VERSION, 0, len(text), size), text]
            for one in chunks:
                parts += (one, bytes(_padded(len(one)) - len(one)))
            whole = b"".join(parts)
            with self._sending:
                self._end.sendall(whole)
            return
        descriptor = _memory(chunks, size)
        try:
            head = _HEAD.pack(_MAGIC, _VERSION, 1, len(text), size) + text
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            with self._sending:
                sent = self._end.sendmsg([head], rights)
                if sent < len(head):
                    self._end.sendall(head[sent:])
        finally:
            os.close(descriptor)

    def receive(self) -> tuple[dict[str, Any], Any]:
        """Return the next header and its bytes; raises EOFError at the end, Malformed."""
        head, descriptor = self._head()
        try:
            magic, version, away, length, size = _HEAD.unpack(head)
            if magic != _MAGIC or version != _VERSION or size > LIMIT or length > _HEADER:
                raise Malformed(f"{bytes(head).hex()} is no head of version {_VERSION}")
            if bool(away) != (descriptor is not None) or (not away and size > INLINE):
                raise Malformed("a message comes without its memory")
            text = self._exactly(length)
            content = self._exactly(size) if descriptor is None else _mapped(descriptor, size)
        finally:
            if descriptor is not None:
                os.close(descriptor)
        try:
            header = json.loads(bytes(text))
        except ValueError as error:
            raise Malformed(f"a header is no JSON: {error}") from None
        if not isinstance(header, dict):
            raise Malformed("a header is no object")
        return header, content

    def _head(self) -> tuple[bytes, int | None]:
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        part, ancillary, _, _ = self._end.recvmsg(_HEAD.size, room, socket.MSG_CMSG_CLOEXEC)
        descriptor = None
        for level, kind, rights in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptor = array.array("i", rights[: array.array("i").itemsize])[0]
        if not part:
            raise EOFError("the socket has ended")
        return part + bytes(self._exactly(_HEAD.size - len(part))), descriptor

    def _exactly(self, size: int) -> bytearray:
        content = bytearray(size)
        view, at = memoryview(content), 0
        while at < size:
            got = self._end.recv_into(view[at:])
            if not got:
                raise EOFError("the socket has ended within a message")
            at += got
        return content


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _memory(chunks: Sequence[Any], size: int) -> int:
    descriptor = os.memfd_create("headrace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        with mmap.mmap(descriptor, size) as memory:
            at = 0
            for one in chunks:
                memory[at : at + len(one)] = one
                at += _padded(len(one))
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _mapped(descriptor: int, size: int) -> mmap.mmap:
    if os.fstat(descriptor).st_size != size:
        raise Malformed(f"memory of {size} bytes has {os.fstat(descriptor).st_size}")
    if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise Malformed("memory that is not sealed")
    return mmap.mmap(descriptor, size)


def pack(tensors: Any, chunks: list[Any]) -> list[list[Any]]:
    """Return what a header says of tensors (name, type, array); their bytes join `chunks`."""
    told = []
    for name, datatype, values in tensors:
        if datatype == "BYTES":
            content = serialized(values)
        elif values.flags.c_contiguous and values.size:
            content = memoryview(values).cast("B")
        else:
            content = values.tobytes()
        chunks.append(content)
        told.append([name, datatype, list(values.shape), len(content)])
    return told


class Unpacking:
    """Reads tensors, in the order in which they were packed, out of one message's bytes."""

    def __init__(self, content: Any) -> None:
        self._content, self._at = content, 0

    def tensors(self, told: Any) -> list[tuple[str, str, Any]]:
        """Return (name, type, array) of each; raises Malformed."""
        try:
            return [self._tensor(*one) for one in told]
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise Malformed(f"what is said of a tensor is wrong: {error}") from None

    def _tensor(self, name: Any, datatype: str, shape: Any, size: int) -> tuple[str, str, Any]:
        at, count = self._at, 1
        for one in shape:
            if not isinstance(one, int) or one < 0:
                raise Malformed(f"{shape} is no shape")
            count *= one
        if not isinstance(name, str) or not 0 <= size <= len(self._content) - at:
            raise Malformed(f"{size} bytes of a tensor are not there")
        self._at = at + _padded(size)
        if datatype == "BYTES":
            found = deserialized(memoryview(self._content)[at : at + size])
            if len(found) != count:
                raise Malformed(f"{len(found)} texts for {shape}")
            return name, datatype, found.reshape(shape)
        dtype = DTYPES[datatype]
        if count * dtype.itemsize != size:
            raise Malformed(f"{size} bytes for {datatype} {shape}")
        if not count:
            return name, datatype, np.empty(shape, dtype)
        return name, datatype, np.frombuffer(self._content, dtype, count, at).reshape(shape)


def serialized(values: Any) -> bytes:
    """Return texts as Triton has them: each behind its length, of four bytes."""
    parts = []
    for one in values.ravel().tolist():
        text = one if isinstance(one, bytes) else str(one).encode()
        parts += (len(text).to_bytes(4, "little"), text)
    return b"".join(parts)


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
