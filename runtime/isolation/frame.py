"""The frames between an engine and a worker: of one size, versioned, and read before believed.

    engine                         worker
    ARENA arena, size, reply ─▶                memory, whose descriptor comes along; with `reply` 1
                                               the worker writes to it
    LOAD or CALL call, arena, reply, tree, size ─▶
                  ◀─ GROW call, size           only if `reply` is too small: a larger ARENA follows
                  ◀─ RESULT or RAISED call, arena, reply, tree, size
    FORGET arena ─▶                            memory that is used no more
    CLOSE ─▶

What is asked is in `arena`, and the answer is to be in `reply`; `tree` and `size` are those of
`values.py`. In an answer `reply` is 1 where the function has kept a part of what it was given: the
engine may not write there again.
"""

import array
import socket
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

_MAGIC: Final = b"hrwk"
_VERSION: Final = 1
_LAYOUT: Final = struct.Struct("<4sHHIIIxxxxQQ")


class FrameError(Exception):
    """The other side does not keep to the protocol."""


class Kind(IntEnum):
    ARENA = 1
    LOAD = 2
    CALL = 3
    FORGET = 4
    CLOSE = 5
    GROW = 6
    RESULT = 7
    RAISED = 8


class Frame(NamedTuple):
    """`call` numbers what is asked and is repeated by the answer; `arena` and `reply` number
    memory."""

    kind: Kind
    call: int = 0
    arena: int = 0
    reply: int = 0
    tree: int = 0
    size: int = 0


def pack(frame: Frame) -> bytes:
    """Return a frame's bytes."""
    kind, call, arena, reply, tree, size = frame
    return _LAYOUT.pack(_MAGIC, _VERSION, kind, call, arena, reply, tree, size)


def unpack(content: bytes) -> Frame:
    """Return the frame of exactly these bytes; raises FrameError."""
    try:
        magic, version, kind, *numbers = _LAYOUT.unpack(content)
        if magic != _MAGIC or version != _VERSION:
            raise FrameError(f"{content[:6].hex()} is no frame of version {_VERSION}")
        return Frame(Kind(kind), *numbers)
    except (struct.error, ValueError) as error:
        raise FrameError(f"{content[:64].hex()} is no frame: {error}") from None


def send(to: socket.socket, frame: Frame, descriptor: int | None = None) -> None:
    """Send a frame, and with it a file descriptor, which stays the sender's to close."""
    content = pack(frame)
    sent = 0
    if descriptor is not None:
        rights = array.array("i", [descriptor])
        sent = to.sendmsg([content], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    if sent < len(content):
        to.sendall(content[sent:])


def receive(
    source: socket.socket, before: Callable[[], float | None] | None = None
) -> Frame | None:
    """Return the next frame, None at the end of the socket.

    `before` tells how many seconds are left; TimeoutError when none are. Descriptors that come
    with it are not taken, which closes them.
    """
    content = b""
    while len(content) < _LAYOUT.size:
        if before is not None:
            left = before()
            if left is not None and left <= 0:
                raise TimeoutError
            source.settimeout(left)
        part = source.recv(_LAYOUT.size - len(content))
        if not part:
            if content:
                raise FrameError(f"the socket ends within a frame: {content.hex()}")
            return None
        content += part
    return unpack(content)


def receive_with_descriptor(source: socket.socket) -> tuple[Frame | None, int | None]:
    """Return the next frame, None at the end, and the descriptor that came with it."""
    content, descriptor = b"", None
    room = socket.CMSG_SPACE(array.array("i").itemsize)
    while len(content) < _LAYOUT.size:
        part, ancillary, _, _ = source.recvmsg(
            _LAYOUT.size - len(content), room, socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, rights in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptor = array.array("i", rights)[0]
        if not part:
            return None, descriptor
        content += part
    return unpack(content), descriptor
