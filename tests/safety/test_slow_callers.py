"""Callers that send slowly, do not read or only connect: they are ended, and others are served."""

import json
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import httpx
import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.limits import CallerLimits
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.plans import toy_plan
from tests.safety.hosted import GOOD, INFER, MIB, hosting, post

pytestmark = pytest.mark.slow
HEAD = f"POST {INFER} HTTP/1.1\r\nHost: x\r\n".encode()
IMPATIENT = CallerLimits(connections=8, head=0.2, idle=0.4, patience=0.2, rate=1 << 20)
FLOOD = """
pipeline flooding(n: i64) -> stream (y: f32[N]) {
    loop (i: i64 = 0) max n {
        emit y = cast(range(10000), f32)
        next i = i + 1
    }
}
"""


@contextmanager
def serving(callers: CallerLimits, plan: Plan | None = None) -> Generator[Server, None, None]:
    engine, config = Engine(plan or toy_plan(), EngineConfig(workers=2)), free_ports(Carrier.AUTO)
    with closing(engine), serve([engine], replace(config, callers=callers)) as server:
        yield server


@pytest.fixture(scope="module")
def impatient() -> Iterator[Server]:
    with serving(IMPATIENT) as server:
        yield server


def connected(server: Server) -> socket.socket:
    host, _, port = str(server.addresses.http).rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def serves(server: Server) -> None:
    answer = httpx.post(f"http://{server.addresses.http}{INFER}", content=GOOD, timeout=60)
    assert answer.status_code == 200, answer.text


def trickle(connection: socket.socket, content: bytes, stop: threading.Event) -> bool:
    """Send byte by byte; returns whether the server closed before the end."""
    for byte in content:
        try:
            connection.sendall(bytes((byte,)))
        except OSError:
            return True
        if stop.wait(0.02):
            return False
    return False


def closed(connection: socket.socket) -> bytes:
    """Return what is answered before the server closes."""
    found = b""
    try:
        while part := connection.recv(1 << 16):
            found += part
    except ConnectionError:
        pass
    return found


@pytest.mark.parametrize(
    ("start", "rest", "answer"),
    [
        (b"", b"", b""),
        (b"", b"\r\n" * 10_000, b"HTTP/1.1 400"),
        (b"", b"GET /v2 HTTP/1.1\r\nX-A: " + b"a" * 10_000, b"HTTP/1.1 400"),
        (HEAD + b"Content-Length: 10000\r\n\r\n", b"{" * 10_000, b""),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n" * 10_000, b""),
        (post(INFER, GOOD), b"", b"HTTP/1.1 200"),
        (post(INFER, GOOD), b"POST / HTTP/1.1\r\nX-A: " + b"a" * 10_000, b"HTTP/1.1 200"),
    ],
    ids=["nothing", "lines", "a head", "a body", "chunks", "an idle one", "a second head"],
)
def test_who_sends_slowly_or_not_at_all_is_ended(
    impatient: Server, start: bytes, rest: bytes, answer: bytes
) -> None:
    stop = threading.Event()
    with connected(impatient) as connection:
        connection.sendall(start)
        sender = threading.Thread(target=trickle, args=(connection, rest, stop))
        sender.start()
        found = closed(connection)
        stop.set()
        sender.join()
    assert found.startswith(answer)
    serves(impatient)


def test_a_silent_connection_makes_room_and_a_busy_one_does_not() -> None:
    with serving(CallerLimits(connections=4)) as server, ExitStack() as opened:
        busy = opened.enter_context(connected(server))
        begin(busy)
        silent = [opened.enter_context(connected(server)) for _ in range(12)]
        serves(server)
        assert closed(silent[0]) == b""
        busy.sendall(GOOD.ljust(100))
        assert busy.recv(12) == b"HTTP/1.1 200"


def test_where_all_are_busy_one_more_is_told_so() -> None:
    with serving(CallerLimits(connections=3)) as server, ExitStack() as opened:
        busy = [opened.enter_context(connected(server)) for _ in range(3)]
        for one in busy:
            begin(one)
        assert closed(opened.enter_context(connected(server))).startswith(b"HTTP/1.1 503")
        busy[0].sendall(b"{}".ljust(100))
        assert b"HTTP/1.1 400" in busy[0].recv(1 << 16)


def begin(connection: socket.socket) -> None:
    """Send a head, and return when it has been read."""
    connection.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n")
    assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_who_does_not_read_an_answer_is_ended(impatient: Server) -> None:
    tensor = {"name": "x0", "datatype": "FP32", "shape": [4 * MIB]}
    head = json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": 16 * MIB}}]})
    content = head.encode() + bytes(16 * MIB)
    with connected(impatient) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(post(INFER, content, f"Inference-Header-Content-Length: {len(head)}"))
        # only the end of the connection can be waited for without reading
        assert ended(connection)
    serves(impatient)


def ended(connection: socket.socket) -> bool:
    """Wait until the server resets the connection: reading nothing, writing what it ignores."""
    pause = threading.Event()
    for _ in range(3000):
        try:
            connection.sendall(b"\r\n")
        except OSError:
            return True
        pause.wait(0.01)
    return False


def test_who_does_not_read_a_stream_is_ended_and_the_stream_with_it() -> None:
    with (
        serving(IMPATIENT, headrace.compile(FLOOD).plan) as server,
        connected(server) as connection,
    ):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(post("/v2/models/flooding/generate_stream", b'{"n": 1000000}'))
        assert ended(connection)
        url = f"http://{server.addresses.http}/v2/models/flooding/generate_stream"
        assert httpx.post(url, content=b'{"n": 1}', timeout=60).text.count("data:") == 1


def test_ten_thousand_idle_connections_take_little_memory_and_others_are_served(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10_000
    if hard < wanted + 500:
        pytest.skip(f"a process may have {hard} files open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with (
            hosting(tmp_path_factory.mktemp("idle"), "--limit", "connections=12000") as hosted,
            ExitStack() as opened,
        ):
            before = hosted.forget_peak()
            for number in range(wanted):
                opened.enter_context(hosted.connect())
                if number % 2500 == 0:
                    hosted.serves()
            hosted.serves()
            assert hosted.peak() - before < 256 * MIB
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
