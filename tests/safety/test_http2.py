"""HTTP/2 as nobody uses it who means well, on both carriers: others are served meanwhile."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from headrace.runtime.protocols.messages import ModelInferRequest
from tests.safety.hosted import MIB, Hosted, hosting
from tests.safety.http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INFER,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Connection,
    call_head,
    field,
    frame,
    message,
)

pytestmark = pytest.mark.slow

LIVE = "/inference.GRPCInferenceService/ServerLive"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
LEAST = 64 * MIB


@pytest.fixture(scope="module", params=["grpcio", "pygrpc-native"])
def carried(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosted]:
    with hosting(tmp_path_factory.mktemp("carried"), "--grpc-carrier", request.param) as made:
        yield made


def serves(hosted: Hosted) -> None:
    """Assert that the same process answers over gRPC, and rightly."""
    assert hosted.process.poll() is None
    with grpc.insecure_channel(hosted.grpc) as channel:
        assert channel.unary_unary(LIVE)(b"", timeout=60) == b"\x08\x01"


def reset_at_once(first: int, count: int) -> bytes:
    head = call_head(LIVE)
    cancel = struct.pack(">I", 8)
    return b"".join(
        frame(HEADERS, END_HEADERS, stream, head) + frame(RST_STREAM, 0, stream, cancel)
        for stream in range(first, first + 2 * count, 2)
    )


def test_rapid_reset_is_bounded(carried: Hosted) -> None:
    """CVE-2023-44487."""
    before = carried.forget_peak()
    with Connection(carried.grpc) as connection, suppress(OSError, EOFError):
        for first in range(1, 40_000, 400):
            connection.send(reset_at_once(first, 200))
    serves(carried)
    assert carried.peak() - before < LEAST


def test_resets_that_the_server_is_made_to_send_are_bounded(carried: Hosted) -> None:
    """CVE-2025-8671: a wrong window of a stream makes the server reset it itself."""
    before = carried.forget_peak()
    with Connection(carried.grpc) as connection, suppress(OSError, EOFError):
        for stream in range(1, 20_000, 2):
            connection.send(
                frame(HEADERS, END_HEADERS, stream, call_head(INFER)),
                frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 0)),
            )
    serves(carried)
    assert carried.peak() - before < LEAST


def test_a_head_that_goes_on_for_ever_is_cut_off(carried: Hosted) -> None:
    """CVE-2024-24549 and its kind: CONTINUATION without an end."""
    before = carried.forget_peak()
    more = field("x-a", "a" * 8000)
    with Connection(carried.grpc) as connection, suppress(OSError, EOFError):
        connection.send(frame(HEADERS, 0, 1, call_head(LIVE)))
        for _ in range(8000):
            connection.send(frame(CONTINUATION, 0, 1, more))
        while True:
            connection.read()
    serves(carried)
    assert carried.peak() - before < LEAST


@pytest.mark.parametrize(
    "flood",
    [
        frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)),
        frame(PING, 0, 0, bytes(8)),
        frame(PING, ACK, 0, bytes(8)),
        frame(DATA, 0, 1),
        frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)),
        frame(2, 0, 3, struct.pack(">IB", 1, 1)),  # PRIORITY
        frame(200, 0, 1, bytes(1000)),  # no known kind
    ],
    ids=["SETTINGS", "PING", "PING's answer", "empty DATA", "WINDOW_UPDATE", "PRIORITY", "unknown"],
)
def test_a_flood_of_frames_is_bounded_though_nobody_reads_the_answers(
    carried: Hosted, flood: bytes
) -> None:
    before = carried.forget_peak()
    open_stream = frame(HEADERS, END_HEADERS, 1, call_head(INFER))
    with Connection(carried.grpc, timeout=2) as connection, suppress(OSError, EOFError):
        connection.send(open_stream)
        for _ in range(200):
            connection.send(flood * 200)
    serves(carried)
    assert carried.peak() - before < LEAST


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosting(tmp_path_factory.mktemp("strict"), "--limit", "unread=4MiB") as made:
        yield made


def large(stream: bool) -> bytes:
    """A request whose answer has a bit more than 1 MiB."""
    asked = ModelInferRequest(model_name="squares")
    asked.inputs.add(name="n", datatype="INT64", shape=[1])
    asked.raw_input_contents.append(struct.pack("<q", 100))
    return message(asked.SerializeToString()) * (8 if stream else 1)


def is_closed(connection: Connection) -> bool:
    """Whether the other side closes it; what comes until then is passed over."""
    try:
        while True:
            connection.read()
    except TimeoutError:
        return False
    except (EOFError, OSError):
        return True


@pytest.mark.parametrize("path", [INFER, STREAM], ids=["calls", "a stream"])
def test_answers_that_nobody_reads_make_room_for_those_that_are_read(
    strict: Hosted, path: str
) -> None:
    """The pygrpc-native carrier holds them all."""
    with Connection(strict.grpc) as hostile:
        hostile.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
        for number in range(1, 17, 2):
            hostile.call(number, path)
            hostile.send(frame(DATA, END_STREAM, number, large(path == STREAM)))
        refused = (HEADERS, END_HEADERS | END_STREAM)
        while (told := hostile.read()) and (told.kind, told.flags & 5) != refused:
            assert told.kind != GOAWAY
        with grpc.insecure_channel(strict.grpc) as channel:
            answer: bytes = channel.unary_unary(INFER)(large(False)[5:], timeout=60)
            assert len(answer) > MIB
        assert is_closed(hostile)
    serves(strict)


def test_a_window_of_nothing_holds_up_nobody_else(carried: Hosted) -> None:
    with Connection(carried.grpc) as connection:
        connection.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
        for stream in range(1, 200, 2):
            connection.send(
                frame(HEADERS, END_HEADERS, stream, call_head(LIVE)),
                frame(DATA, END_STREAM, stream, message(b"")),
            )
        serves(carried)


@pytest.mark.parametrize(
    "wrong",
    [
        frame(DATA, 0, 0, b"x"),
        frame(HEADERS, END_HEADERS, 2, call_head(LIVE)),
        frame(HEADERS, END_HEADERS, 1, b"\xff" * 100),
        frame(HEADERS, END_HEADERS, 1, field("content-type", "application/grpc")),
        frame(HEADERS, END_HEADERS, 1, call_head(LIVE, ("Upper", "case"))),
        frame(HEADERS, END_HEADERS, 1, call_head(LIVE, ("x\0y", "z\r\nforged: line"))),
        frame(HEADERS, END_HEADERS, 1, call_head(LIVE, ("grpc-timeout", "9" * 100 + "H"))),
        frame(HEADERS, END_HEADERS, 1, call_head(LIVE, ("grpc-encoding", "no-such"))),
        frame(HEADERS, END_HEADERS, 1, call_head("/../../etc/passwd")),
        frame(SETTINGS, 0, 0, b"12345"),
        frame(SETTINGS, ACK, 0, b"123456"),
        frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0)),
        frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFFFFFF)) * 2,
        frame(CONTINUATION, 0, 1, b""),
        frame(5, END_HEADERS, 1, struct.pack(">I", 2)),  # PUSH_PROMISE
        b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(100),
        b"GET /v2 HTTP/1.1\r\n\r\n",
    ],
)
def test_a_wrong_frame_is_that_connections_end_alone(carried: Hosted, wrong: bytes) -> None:
    with Connection(carried.grpc, timeout=5) as connection, suppress(OSError, EOFError):
        connection.send(wrong, frame(DATA, END_STREAM, 1, message(b"")))
        connection.read()
    serves(carried)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\0", b"\0\0\0\0", b"\2\0\0\0\0", b"\0\xff\xff\xff\xff", b"\1\0\0\0\5abcde"],
    ids=["nothing", "a flag", "half a length", "a wrong flag", "4 GiB declared", "no gzip"],
)
def test_a_malformed_message_disturbs_nobody_else(carried: Hosted, payload: bytes) -> None:
    """grpcio leaves a call without a message open for as long as its caller stays."""
    with Connection(carried.grpc) as connection:
        for stream in range(1, 100, 2):
            connection.call(stream, INFER, ("grpc-encoding", "gzip"))
            connection.send(frame(DATA, END_STREAM, stream, payload))
        serves(carried)


def test_who_answers_no_ping_is_gone(tmp_path: Path) -> None:
    """Of a connection without a call grpcio notices by its silence."""
    words = ("--grpc-carrier", "pygrpc-native", "--limit", "patience=0.2")
    with hosting(tmp_path, *words) as hosted, Connection(hosted.grpc) as silent:
        with suppress(ConnectionError):
            while silent.socket.recv(1 << 16):
                pass
        serves(hosted)
