"""Messages between an engine and a worker: a header, and the bytes of tensors behind it.

    head (magic, version, what kind it is, two lengths) | header | bytes

A header is JSON, or where it is of a batch, what `batches.py` makes of it.

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
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

INLINE = 1 << 16
LIMIT = 1 << 33  # bytes of one message
ROOM = 64
ROOM_BYTES = 1 << 26
"""A decoupled model waits while so many responses to a request, or such of so many bytes, have not
been taken."""
_HEADER = 1 << 26
_MAGIC = b"hrtp"
_HEAD = struct.Struct("<4sHHIxxxxQ")
_VERSION = 2
_JSON, _AWAY = 1, 2  # what kind a message is: its header is JSON; its bytes are in memory
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_ALIGN = 64
_PADDING = [bytes(-size % _ALIGN) for size in range(_ALIGN)]
_READ = 1 << 17
_KEPT = 8  # descriptors that came and are not taken yet
_RIGHTS = socket.CMSG_SPACE(8 * array.array("i").itemsize)

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
        self._bytes = bytearray(_READ)
        self._buffer = memoryview(self._bytes)
        self._start = self._stop = 0  # of what has been read, and is no message yet
        self._descriptors: deque[int] = deque()

    def send(self, header: dict[str, Any] | bytes, chunks: Sequence[Any] = ()) -> None:
        """Send a header, of what JSON has or as it is, and the bytes of tensors behind it."""
        kind = 0
        if isinstance(header, dict):
            header, kind = json.dumps(header).encode(), _JSON
        parts, size = [b"", header], 0
        for one in chunks:
            length = len(one)
            parts += (one, _PADDING[length % _ALIGN])
            size += padded(length)
        if size > LIMIT or len(header) > _HEADER:
            raise ValueError(f"{size} bytes are more than one message may have, {LIMIT}")
        if size <= INLINE:
            parts[0] = _HEAD.pack(_MAGIC, _VERSION, kind, len(header), size)
            whole = b"".join(parts)
            with self._sending:
                self._end.sendall(whole)
            return
        descriptor = _memory(chunks, size)
        try:
            head = _HEAD.pack(_MAGIC, _VERSION, kind | _AWAY, len(header), size) + header
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            with self._sending:
                sent = self._end.sendmsg([head], rights)
                if sent < len(head):
                    self._end.sendall(head[sent:])
        finally:
            os.close(descriptor)

    @property
    def has_read(self) -> bool:
        """Whether something was read that is a message, or the begin of one."""
        return self._start < self._stop

    def receive(self) -> tuple[dict[str, Any] | bytes, Any]:
        """Return the next header and its bytes; raises EOFError at the end, Malformed."""
        if self._stop - self._start < _HEAD.size:
            self._fill(_HEAD.size)
        magic, version, kind, length, size = _HEAD.unpack_from(self._bytes, self._start)
        if magic != _MAGIC or version != _VERSION or size > LIMIT or length > _HEADER:
            told = bytes(self._buffer[self._start : self._start + _HEAD.size])
            raise Malformed(f"{told.hex()} is no head of version {_VERSION}")
        self._start += _HEAD.size
        header = bytes(self._exactly(length))
        if kind & _AWAY:
            if not self._descriptors:
                raise Malformed("a message comes without its memory")
            descriptor = self._descriptors.popleft()
            try:
                content = _mapped(descriptor, size)
            finally:
                os.close(descriptor)
        elif size > INLINE:
            raise Malformed("a message comes without its memory")
        else:
            content = self._exactly(size)
        if not kind & _JSON:
            return header, content
        try:
            told = json.loads(header)
        except ValueError as error:
            raise Malformed(f"a header is no JSON: {error}") from None
        if not isinstance(told, dict):
            raise Malformed("a header is no object")
        return told, content

    def close(self) -> None:
        """Give back memory that came and was not taken."""
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def _exactly(self, size: int) -> bytearray:
        """Return so many bytes, which are the caller's."""
        if size <= _READ:
            if self._stop - self._start < size:
                self._fill(size)
            start = self._start
            self._start = stop = start + size
            return self._bytes[start:stop]
        found = bytearray(size)
        view, at = memoryview(found), self._stop - self._start
        view[:at] = self._buffer[self._start : self._stop]
        self._start = self._stop = 0
        while at < size:
            at += self._read(view[at:])
        return found

    def _fill(self, size: int) -> None:
        """Read until there are so many bytes in the buffer, of which it holds more."""
        have = self._stop - self._start
        if have >= size:
            return
        if not have:
            self._start = self._stop = 0
        elif self._start + size > _READ:
            self._buffer[:have] = bytes(self._buffer[self._start : self._stop])
            self._start, self._stop = 0, have
        while self._stop - self._start < size:
            self._stop += self._read(self._buffer[self._stop :])

    def _read(self, into: memoryview) -> int:
        """Read what there is, with what comes along; raises EOFError at the end."""
        got, ancillary, _, _ = self._end.recvmsg_into([into], _RIGHTS, socket.MSG_CMSG_CLOEXEC)
        for level, kind, rights in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._descriptors += array.array("i", rights)
        if len(self._descriptors) > _KEPT:
            raise Malformed("memory comes for no message")
        if not got:
            raise EOFError("the socket has ended")
        return got


def padded(size: int) -> int:
    """Return where the tensor behind one of so many bytes begins."""
    return -(-size // _ALIGN) * _ALIGN


def _memory(chunks: Sequence[Any], size: int) -> int:
    descriptor = os.memfd_create("headrace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        with mmap.mmap(descriptor, size) as memory:
            at = 0
            for one in chunks:
                memory[at : at + len(one)] = one
                at += padded(len(one))
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
        content = content_of(datatype, values)
        chunks.append(content)
        told.append([name, datatype, list(values.shape), len(content)])
    return told


def content_of(datatype: str, values: Any) -> Any:
    """Return the bytes of a tensor."""
    if datatype == "BYTES":
        return serialized(values)
    if values.flags.c_contiguous and values.size:
        return memoryview(values).cast("B")
    return values.tobytes()


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
        self._at = at + padded(size)
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
