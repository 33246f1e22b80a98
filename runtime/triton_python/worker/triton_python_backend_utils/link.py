"""Messages between an engine and a worker: a header, and the bytes of tensors behind it.

    head (magic, version, what kind it is, two lengths, a number) | header | bytes

A header is JSON, or where it is of a batch, what `batches.py` makes of it. The number is that of
the call that is asked or answered, or of the request that is spoken of: so all else that a header
says is mostly what one before has said, and is written and read once.

Up to INLINE bytes of tensors go through the socket, which holds one such message: 240 KiB take
60 us there, and 450 where memory is made for them and mapped. More are in a memfd whose descriptor
comes along, sealed so that nobody can make it shorter under its reader, who maps it without a copy.
Each tensor begins at a multiple of 64. Either side may send at any time; nothing is unpickled, and
every length that comes is held against what is there.
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
from typing import TYPE_CHECKING, Any, NamedTuple

from .contents import ALIGN, Malformed, Places, padded

if TYPE_CHECKING:
    from .contents import Tensors

INLINE = 3 << 17  # sockets hold twice 208 KiB where the system has its default
LIMIT = 1 << 33  # bytes of one message
ROOM = 64
ROOM_BYTES = 1 << 26
"""A decoupled model waits while so many responses to a request, or such of so many bytes, have not
been taken."""
_HEADER = 1 << 26
_MAGIC = b"hrtp"
_HEAD = struct.Struct("<4sHHIxxxxQQ")
_VERSION = 3
_JSON, _AWAY = 1, 2  # what kind a message is: its header is JSON; its bytes are in memory
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_PADDING = [bytes(-size % ALIGN) for size in range(ALIGN)]
_READ = 1 << 17
_KEPT = 8  # descriptors that came and are not taken yet
_MOST = 1024  # headers that are remembered
_LONG = 1024  # bytes of a header, from which on it is not remembered
_RIGHTS = socket.CMSG_SPACE(8 * array.array("i").itemsize)


class Link:
    """One end of the socket. Any thread may send; one at a time receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, INLINE)  # the system takes twice that
        self._sending = threading.Lock()
        self._bytes = bytearray(_READ)
        self._buffer = memoryview(self._bytes)
        self._start = self._stop = 0  # of what has been read, and is no message yet
        self._descriptors: deque[int] = deque()
        self._written: dict[Saying, bytes] = {}
        self._told: dict[bytes, dict[str, Any]] = {}

    def send(
        self,
        header: dict[str, Any] | Saying | bytes,
        chunks: Sequence[Any] = (),
        number: int = 0,
    ) -> None:
        """Send a header, of what JSON has or as it is, and the bytes of tensors behind it."""
        kind = 0
        if not isinstance(header, bytes):
            kind = _JSON
            header = json.dumps(header).encode() if isinstance(header, dict) else self._text(header)
        parts, size = [b"", header], 0
        for one in chunks:
            length = len(one)
            parts += (one, _PADDING[length % ALIGN])
            size += padded(length)
        if size > LIMIT or len(header) > _HEADER:
            raise ValueError(f"{size} bytes are more than one message may have, {LIMIT}")
        if size <= INLINE:
            parts[0] = _HEAD.pack(_MAGIC, _VERSION, kind, len(header), size, number)
            whole = b"".join(parts)
            with self._sending:
                self._end.sendall(whole)
            return
        descriptor = _memory(chunks, size)
        try:
            head = _HEAD.pack(_MAGIC, _VERSION, kind | _AWAY, len(header), size, number) + header
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

    def receive(self) -> tuple[dict[str, Any] | bytes, Any, int]:
        """Return the next header, which others may have too, its bytes and its number; raises
        EOFError at the end, Malformed. What is told of `tensors` has become their places."""
        if self._stop - self._start < _HEAD.size:
            self._fill(_HEAD.size)
        magic, version, kind, length, size, number = _HEAD.unpack_from(self._bytes, self._start)
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
            return header, content, number
        told = self._told.get(header)
        if told is None:
            told = _read(header)
            if number and length < _LONG:
                if len(self._told) == _MOST:
                    self._told.clear()
                self._told[header] = told
        return told, content, number

    def close(self) -> None:
        """Give back memory that came and was not taken."""
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def _text(self, said: Saying) -> bytes:
        text = self._written.get(said)
        if text is None:
            text = json.dumps(said._asdict()).encode()
            if len(text) < _LONG:
                if len(self._written) == _MOST:
                    self._written.clear()
                self._written[said] = text
        return text

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


def _memory(chunks: Sequence[Any], size: int) -> int:
    descriptor = os.memfd_create("headrace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        start = 0
        for one in chunks:
            left = memoryview(one)
            while left:  # written, as to map it here too would take as long as all the rest
                left = left[os.pwrite(descriptor, left, start + len(one) - len(left)) :]
            start += padded(len(one))
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


class Ask(NamedTuple):
    """A model is asked, by the one that is given request `parent` (None: by all that it executes).
    The thread that executes `waits`. `more` are id, correlation id, flags, timeout and parameters
    where those are not what requests have."""

    do: str
    model: str
    version: int
    outputs: tuple[str, ...]
    parent: int | None
    decoupled: bool
    waits: bool
    more: tuple[str, int | str, int, int, str] | None
    tensors: Tensors


class Responded(NamedTuple):
    """A request is answered, with outputs; it has no other answer if this is `final`."""

    do: str
    final: int
    parameters: str
    tensors: Tensors


class Answered(NamedTuple):
    """A call is answered, with the outputs of a model."""

    do: str
    tensors: Tensors


if TYPE_CHECKING:  # an interpreter of a model may be older than these are
    Saying = Ask | Responded | Answered
    """A header that is mostly said again."""


def _read(header: bytes) -> dict[str, Any]:
    try:
        told = json.loads(header)
    except ValueError as error:
        raise Malformed(f"a header is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise Malformed("a header is no object")
    if "tensors" in told:
        told["tensors"] = Places.of(told["tensors"])
    return told
