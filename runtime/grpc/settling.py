"""Waiting until the threads of HTTP/2 have sent what they were given, which the native carrier does
not tell, and does not wait for when it is closed.

Each of them takes up what is ready in turn. So what was handed over before we ask for the answer to
a PING has gone a step further when that is here; an answer that comes from behind the carrier takes
three: out of the socket behind, to the caller's connection, and into the caller's socket.
"""

import asyncio
from contextlib import suppress
from struct import pack
from typing import Final

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS, _PING, _ACK = 4, 6, 1
_LAPS: Final = 8
"""Of three that it takes; a lap is a few microseconds of a thread."""


async def settle(host: str, port: int, threads: int, seconds: float) -> None:
    """Return when what the server there had to send has been sent, or after that time."""
    with suppress(OSError, EOFError, TimeoutError):  # it is closed all the same
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(_lap(host, port) for _ in range(threads)))


async def _lap(host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_PREFACE + _frame(_SETTINGS))
        for lap in range(_LAPS):
            writer.write(_frame(_PING, pack(">Q", lap)))
            while await _kind(reader) != (_PING, _ACK):
                pass
    finally:
        writer.close()


def _frame(kind: int, payload: bytes = b"") -> bytes:
    return pack(">I", len(payload))[1:] + bytes((kind, 0)) + bytes(4) + payload


async def _kind(reader: asyncio.StreamReader) -> tuple[int, int]:
    """Read a frame; return its kind and flags."""
    head = await reader.readexactly(9)
    await reader.readexactly(int.from_bytes(head[:3]))
    return head[3], head[4]
