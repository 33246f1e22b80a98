"""HTTP/2 by hand, as a hostile caller speaks it: frames as they are asked for, right or wrong."""

import socket
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
GOAWAY, WINDOW_UPDATE, CONTINUATION = 7, 8, 9
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1
INFER: Final = "/inference.GRPCInferenceService/ModelInfer"


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    size = struct.pack(">I", len(payload))[1:]
    return size + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def field(name: str, value: str) -> bytes:
    """A header field as HPACK writes it without tables or Huffman's code."""
    return b"\0" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    raw = text.encode("latin-1")
    size = len(raw)
    if size < 127:
        return bytes((size,)) + raw
    size, prefix = size - 127, bytearray((127,))
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    return bytes((*prefix, size)) + raw


def call_head(path: str, *extra: tuple[str, str]) -> bytes:
    """The header block of a gRPC call."""
    fields = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *extra,
    )
    return b"".join(field(*one) for one in fields)


def message(payload: bytes, compressed: bool = False) -> bytes:
    return bytes((compressed,)) + struct.pack(">I", len(payload)) + payload


class Connection:
    """A connection that keeps the rules of flow control, as its server would have it."""

    def __init__(self, address: str, timeout: float = 20.0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self._rest = b""
        self._windows: dict[int, int] = {0: 65535}
        self._initial = 65535
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def call(self, stream: int, path: str, *extra: tuple[str, str]) -> None:
        self.send(frame(HEADERS, END_HEADERS, stream, call_head(path, *extra)))

    def upload(self, stream: int, content: bytes, end: bool = True) -> None:
        """Send the content as the windows allow, until the stream is closed."""
        at = 0
        while at < len(content):
            room = min(self._windows[0], self._windows.setdefault(stream, self._initial), 16384)
            if room <= 0:
                if self.read().kind in (RST_STREAM, GOAWAY):
                    return
                continue
            piece = content[at : at + room]
            at += len(piece)
            for key in (0, stream):
                self._windows[key] -= len(piece)
            last = end and at == len(content)
            self.send(frame(DATA, END_STREAM if last else 0, stream, piece))

    def read(self) -> Frame:
        """Return the next frame; raises EOFError when there is none any more."""
        head = self._take(9)
        kind, flags = head[3], head[4]
        found = Frame(
            kind,
            flags,
            int.from_bytes(head[5:9]) & 0x7FFFFFFF,
            self._take(int.from_bytes(head[:3])),
        )
        if kind == WINDOW_UPDATE:
            more = int.from_bytes(found.payload)
            stream = found.stream
            self._windows[stream] = self._windows.get(stream, self._initial) + more
        elif kind == DATA and found.payload:
            more_room = struct.pack(">I", len(found.payload))
            self.send(*(frame(WINDOW_UPDATE, 0, one, more_room) for one in (0, found.stream)))
        elif kind == SETTINGS and not flags & ACK:
            self._learn(found.payload)
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, found.payload))
        return found

    def until_closed(self, stream: int) -> Iterator[Frame]:
        """Yield what comes until the stream ends one way or another, that frame included."""
        while True:
            found = self.read()
            yield found
            if found.kind == GOAWAY:
                return
            ended = found.kind == RST_STREAM or (
                found.kind in (DATA, HEADERS) and found.flags & END_STREAM
            )
            if found.stream == stream and ended:
                return

    def _learn(self, payload: bytes) -> None:
        for at in range(0, len(payload) - 5, 6):
            name, value = struct.unpack(">HI", payload[at : at + 6])
            if name == 4:
                for stream in self._windows:
                    if stream:
                        self._windows[stream] += value - self._initial
                self._initial = value

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            more = self.socket.recv(1 << 16)
            if not more:
                raise EOFError
            self._rest += more
        found, self._rest = self._rest[:size], self._rest[size:]
        return found
