"""The short way of inference over HTTP answers what uvicorn's own way answers, however it comes."""

import asyncio
import gzip
import json
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from random import Random
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

import headrace
from headrace.runtime.access import Access, Token, policy_of
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.http import HttpFront
from headrace.runtime.http_answer import Inference
from headrace.runtime.http_door import Door
from headrace.runtime.http_protocol import LimitedProtocol, limited
from headrace.runtime.protocols.limits import CallerLimits, Limits
from headrace.runtime.protocols.operations import all_operations
from headrace.runtime.repository.repository import Repository
from headrace.runtime.server import Server
from headrace.runtime.service import Service
from tests.runtime.wire.conftest import Gate, Start
from tests.runtime.wire.plans import toy_plan
from tests.runtime.wire.test_http import numbers, wait_request
from tests.runtime.wire.test_streams import SOURCE

INFER = "/v2/models/echo_f32/infer"
GOOD = json.dumps(numbers([0.5, 1.5], [2])).encode()
LAST = b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
SECRET = "a secret of many letters"


class Front:
    """What a server has between its sockets and its engines, with callers in place of sockets."""

    def __init__(self, engines: Sequence[Engine], **settings: Any) -> None:
        repository = Repository(engines[0].config)
        for index, engine in enumerate(engines):
            repository.adopt(f"plan-{index}", engine, 1)
        service = Service(repository, Limits(body=1 << 20), **settings)
        service.set_ready(True)
        front = HttpFront(service, all_operations("0", "headrace"))
        self.app: ASGIApp = Door(front, "127.0.0.1")
        self.inference = Door(front, "127.0.0.1").opening(front)

    def hear(self, parts: Sequence[bytes], *, short: bool, turns: bool = False) -> bytes:
        """Return what is answered to a caller who sends these parts and ends the connection with
        the last request; in `turns` he waits for an answer to each."""
        with asyncio.Runner() as runner:
            return runner.run(self._hear(parts, self.inference if short else None, turns))

    async def _hear(
        self, parts: Sequence[bytes], inference: Inference | None, turns: bool
    ) -> bytes:
        protocol = self.protocol(inference)
        caller = Caller(protocol)
        for part in parts:
            if caller.is_closing():
                break
            protocol.data_received(part)
            await caller.reads_on()
            if turns:
                await caller.answered()
        async with asyncio.timeout(60):
            await caller.closed.wait()
        protocol.connection_lost(None)
        return b"".join(caller.written)

    def protocol(self, inference: Inference | None) -> LimitedProtocol:
        """Return what hears one caller, of the event loop that runs."""
        kind = limited(CallerLimits(), inference)
        config = uvicorn.Config(
            self.app,
            http=kind,
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
        )
        config.load()
        return kind(config, ServerState(), {})


class Caller(asyncio.Transport):
    """Keeps what it is answered, and sends nothing while the server reads nothing."""

    def __init__(self, protocol: LimitedProtocol) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed, self._reads = asyncio.Event(), asyncio.Event()
        self._reads.set()
        self._protocol, self._wrote = protocol, asyncio.Event()
        protocol.connection_made(self)

    async def reads_on(self) -> None:
        await asyncio.sleep(0)
        both = [asyncio.ensure_future(one.wait()) for one in (self._reads, self.closed)]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for one in both:
            one.cancel()

    async def answered(self) -> None:
        """Wait until there is no request that is not answered."""
        async with asyncio.timeout(60):
            while not (self._protocol.cycle.response_complete or self.is_closing()):
                self._wrote.clear()
                await self._wrote.wait()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("sockname", "peername") else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.closed.is_set():
            self.written.append(bytes(data))
            self._wrote.set()

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def close(self) -> None:
        self.closed.set()
        self._wrote.set()

    abort = close

    def pause_reading(self) -> None:
        self._reads.clear()

    def resume_reading(self) -> None:
        self._reads.set()


@pytest.fixture(scope="module")
def engines() -> Iterator[list[Engine]]:
    plans = (toy_plan(), headrace.compile(SOURCE).plan)
    made = [Engine(plan, EngineConfig(workers=2)) for plan in plans]
    yield made
    for engine in made:
        engine.close()


def post(target: str, body: bytes, *lines: str, version: str = "1.1") -> bytes:
    head = [f"POST {target} HTTP/{version}", "Host: 127.0.0.1", *lines]
    if not any(line.lower().startswith("transfer-encoding") for line in lines):
        head.append(f"CONTENT-length: {len(body)}")
    return "\r\n".join((*head, "", "")).encode("latin-1") + body


def chunked(body: bytes, size: int) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


TE = "Transfer-Encoding: chunked"
LARGE = json.dumps(numbers([0.5] * 10_000, [10_000])).encode()
TENSOR = {"name": "x0", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}}
BINARY = json.dumps({"inputs": [TENSOR], "parameters": {"binary_data_output": True}}).encode()
ONE = json.dumps({"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [3]}]})
REQUESTS = {
    "one": post(INFER, GOOD),
    "of a version": post("/v2/models/echo_f32/versions/1/infer", GOOD),
    "of no version": post("/v2/models/echo_f32/versions/9/infer", GOOD),
    "of no model": post("/v2/models/none/infer", GOOD),
    "of a name that is none": post("/v2/models/..%2f/infer", GOOD),
    "of no name": post("/v2/models//infer", GOOD),
    "of a long name": post(f"/v2/models/{'n' * 3000}/infer", GOOD),
    "percent-encoded": post("/v2/%6dodels/%65cho_f32/inf%65r", GOOD),
    "a slash that is encoded": post("/v2%2fmodels/echo_f32/infer", GOOD),
    "no text": post("/v2/models/%ff%00/infer", GOOD),
    "two slashes": post("//v2/models/echo_f32/infer", GOOD),
    "two slashes within": post("/v2//models/echo_f32/infer", GOOD),
    "a slash at its end": post(f"{INFER}/", GOOD),
    "dots": post("/v2/models/../models/echo_f32/infer", GOOD),
    "a query": post(f"{INFER}?a=b&c", GOOD),
    "a fragment": post(f"{INFER}#a", GOOD),
    "absolute": post(f"http://127.0.0.1{INFER}", GOOD),
    "absolute, elsewhere": post(f"http://example.com:1{INFER}", GOOD),
    "absolute, broken": post(f"http://[{INFER}", GOOD),
    "an asterisk": post("*", GOOD),
    "in capitals": post(INFER.upper(), GOOD),
    "binary": post(INFER, BINARY + bytes(8), f"inference-HEADER-content-LENGTH: {len(BINARY)}"),
    "a wrong length of JSON": post(INFER, GOOD, "Inference-Header-Content-Length: x"),
    "two lengths of JSON": post(INFER, GOOD, *["Inference-Header-Content-Length: 9"] * 2),
    "no JSON": post(INFER, b"{"),
    "nothing": post(INFER, b""),
    "large": post(INFER, LARGE),
    "too large": post(INFER, bytes((1 << 20) + 1)),
    "coded": post(INFER, gzip.compress(GOOD), "Content-Encoding: gzip"),
    "in a coding that is none": post(INFER, GOOD, "Content-Encoding: x"),
    "for an answer in a coding": post(INFER, LARGE, "Accept-Encoding: gzip"),
    "a chunk": post(INFER, chunked(GOOD, 1000), TE),
    "chunks": post(INFER, chunked(GOOD, 7), TE),
    "chunks and a trailer": post(INFER, chunked(GOOD, 9)[:-2] + b"X-A: b\r\n\r\n", TE),
    "chunks of a large one": post(INFER, chunked(LARGE, 9999), TE),
    "a broken chunk": post(INFER, b"x\r\n", TE),
    "an expectation": post(INFER, GOOD, "Expect: 100-continue"),
    "the last": post(INFER, GOOD, "Connection: close"),
    "the last of more words": post(INFER, GOOD, "Connection: x, Close"),
    "to be kept": post(INFER, GOOD, "Connection: keep-alive"),
    "1.0": post(INFER, GOOD, version="1.0"),
    "1.0, to be kept": post(INFER, GOOD, "Connection: keep-alive", version="1.0"),
    "another protocol": post(INFER, GOOD, "Connection: Upgrade", "Upgrade: h2c"),
    "two lengths": post(INFER, GOOD, f"Content-Length: {len(GOOD)}"),
    "a length and chunks": post(INFER, chunked(GOOD, 7), TE, "Content-Length: 4"),
    "a header without a name": post(INFER, GOOD, ": x"),
    "by another name": post(INFER, GOOD, "Host: example.com"),
    "from elsewhere": post(INFER, GOOD, "Origin: http://example.com"),
    "from elsewhere, by its site": post(INFER, GOOD, "Sec-Fetch-Site: cross-site"),
    "not POST": post(INFER, GOOD).replace(b"POST", b"PUT", 1),
    "HEAD": f"HEAD {INFER} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(),
    "GET": f"GET {INFER} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(),
    "a failing stage": post(
        "/v2/models/fail/infer",
        b'{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["marker"]}]}',
    ),
    "of a stream": post("/v2/models/count/infer", ONE.encode()),
    "of a stream in parts": post("/v2/models/count/infer", ONE.encode(), "Accept: multipart/mixed"),
    "another operation": post("/v2/repository/index", b"{}"),
    "plain JSON": post("/v2/models/echo_f32/generate", b'{"x0": [0.5]}'),
    "events": post("/v2/models/count/generate_stream", b'{"n": 3}'),
    "lines before it": b"\r\n\r\n" + post(INFER, GOOD),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}
TOGETHER = (
    ("one", "one", "one"),
    ("one", "GET", "one"),
    ("GET", "one", "plain JSON", "one"),
    ("events", "one", "of a stream in parts", "binary"),
    ("one", "large", "one", "chunks", "one"),
    ("no JSON", "one", "another operation", "of no model"),
    ("one", "the last", "one"),
    ("1.0", "one"),
)


def ways(content: bytes) -> Iterator[list[bytes]]:
    """Yield the ways in which bytes may come: at once, in two or three parts, one by one."""
    yield [content]
    random = Random(len(content))
    for count in (1, 1, 2, 2):
        at = sorted(random.sample(range(1, len(content)), count))
        yield [content[i:j] for i, j in zip((0, *at), (*at, len(content)), strict=True)]
    if len(content) < 1000:
        yield [content[i : i + 1] for i in range(len(content))]


def told(answers: bytes) -> bytes:
    """Leave out what may differ: the boundary of parts, and whether a body was asked for."""
    answers = answers.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    return re.sub(rb"[0-9a-f]{32}", b"boundary", answers)


def test_the_short_way_answers_as_the_other(engines: list[Engine]) -> None:
    front = Front(engines)
    for name, content in REQUESTS.items():
        answers = [told(front.hear([content + LAST], short=short)) for short in (True, False)]
        assert answers[0] == answers[1], name
        assert answers[0].startswith(b"HTTP/1.1 "), name


def test_a_head_that_is_known_is_answered_as_the_first_time(engines: list[Engine]) -> None:
    front = Front(engines)
    for name, content in REQUESTS.items():
        other = content.replace(b"0.5", b"2.5")  # behind the same head
        parts = [content, content, other, REQUESTS["one"], content, content, other + LAST]
        answers = [told(front.hear(parts, short=one, turns=True)) for one in (True, False)]
        assert answers[0] == answers[1], name


def test_a_short_head_is_kept_until_another_comes(engines: list[Engine]) -> None:
    asyncio.run(_keeps(Front(engines)))


async def _keeps(front: Front) -> None:
    for name in ("one", "binary", "of no model", "an expectation", "from elsewhere", "coded"):
        protocol, content = front.protocol(front.inference), REQUESTS[name]
        caller = Caller(protocol)
        protocol.data_received(content)
        await caller.answered()
        assert protocol.is_known(content), name
        assert not protocol.is_known(content + b"1"), name
        assert not protocol.is_known(content[:-1]), name
        assert not protocol.is_known(b"x" + content[1:]), name
        protocol.data_received(LAST[:10])
        assert not protocol.is_known(content), name
        protocol.connection_lost(None)
    for name in ("of a long name", "the last", "1.0, to be kept", "a chunk", "GET", "not POST"):
        protocol, content = front.protocol(front.inference), REQUESTS[name]
        caller = Caller(protocol)
        protocol.data_received(content)
        await caller.answered()
        assert not protocol.is_known(content), name
        protocol.connection_lost(None)


@pytest.mark.slow
@pytest.mark.parametrize("requests", [*((one,) for one in REQUESTS), *TOGETHER], ids=" + ".join)
def test_requests_are_answered_alike_and_in_turn_however_they_come(
    engines: list[Engine], requests: tuple[str, ...]
) -> None:
    front = Front(engines)
    content = b"".join(REQUESTS[one] for one in requests) + LAST
    expected = told(front.hear([content], short=False))
    for parts in ways(content):
        assert told(front.hear(parts, short=True)) == expected, parts


@pytest.mark.parametrize("line", ["", "Authorization: Bearer x", f"Authorization: Bearer {SECRET}"])
@pytest.mark.parametrize("target", [INFER, INFER.replace("infer", "generate")])
def test_a_token_is_asked_for_on_both_ways(engines: list[Engine], target: str, line: str) -> None:
    token = Token("ours", SECRET, frozenset({Access.INFER}))
    front = Front(engines, policy=policy_of((), [token]))
    body = GOOD if target == INFER else b'{"x0": [0.5]}'
    content = post(target, body, *([line] if line else [])) + LAST
    found = {front.hear(parts, short=short) for parts in ways(content) for short in (True, False)}
    (answer,) = found
    assert answer.startswith(b"HTTP/1.1 200" if SECRET in line else b"HTTP/1.1 401")


@pytest.mark.parametrize("target", [INFER, INFER.replace("infer", "generate")])
def test_a_token_that_nobody_knows_is_refused_where_none_is_needed(
    engines: list[Engine], target: str
) -> None:
    token = Token("ops", SECRET, frozenset({Access.CONTROL}))
    front = Front(engines, policy=policy_of((Access.INFER,), [token]))
    body = GOOD if target == INFER else b'{"x0": [0.5]}'
    for line, status in (("", 200), ("Authorization: Bearer x", 401)):
        content = post(target, body, *([line] if line else [])) + LAST
        for short in (True, False):
            assert front.hear([content], short=short).startswith(b"HTTP/1.1 %d" % status)


def that_waits(gate: Gate) -> bytes:
    """Return a request that is answered when a gate opens."""
    return post("/v2/models/wait/infer", json.dumps(wait_request(gate)).encode())


def connected(server: Server) -> socket.socket:
    host, _, port = str(server.addresses.http).rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.mark.slow
def test_what_is_behind_a_request_that_waits_is_answered_after_it(
    start: Start, gates: tuple[Gate, Gate]
) -> None:
    server = start(workers=2)
    gate, _ = gates
    waiting = that_waits(gate)
    with closing(connected(server)) as connection:
        connection.sendall(waiting + post(INFER, GOOD) + LAST)
        gate.entered()
        httpx.get(f"http://{server.addresses.http}/v2/health/live")  # by then all was read
        gate.open(b"the first")
        with connection.makefile("rb") as answers:
            found = answers.read()
    assert re.findall(rb'"data":\[[^]]*\]|"live":true', found) == [
        b'"data":["the first"]',
        b'"data":[0.5,1.5]',
        b'"live":true',
    ]


@pytest.mark.slow
@pytest.mark.parametrize("garbage", [b"\0\0\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * (1 << 17)])
def test_garbage_behind_a_request_that_waits_does_not_come_before_its_answer(
    start: Start, gates: tuple[Gate, Gate], garbage: bytes
) -> None:
    server = start(workers=2)
    gate, _ = gates
    waiting = that_waits(gate)
    with closing(connected(server)) as connection:
        connection.sendall(waiting)
        gate.entered()
        connection.sendall(garbage)
        httpx.get(f"http://{server.addresses.http}/v2/health/live")  # by then it was read
        gate.open(b"the first")
        found = b""
        with suppress(ConnectionResetError):  # it was not all read
            while piece := connection.recv(1 << 16):
                found += piece
    assert found.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in found
    assert found.count(b"HTTP/1.1") == 1
    assert b'"data":["the first"]' in found


def test_a_part_of_a_request_leaves_nothing(one_server: Server) -> None:
    content = post(INFER, GOOD)
    for end in range(1, len(content), 7):
        with closing(connected(one_server)) as connection:
            connection.sendall(content[:end])
    with closing(connected(one_server)) as connection:
        connection.sendall(content + LAST)
        with connection.makefile("rb") as answers:
            assert answers.read().count(b"HTTP/1.1 200") == 2


@pytest.mark.slow
def test_who_is_not_answered_in_the_time_that_there_is_to_stop_is_left(
    start: Start, gates: tuple[Gate, Gate]
) -> None:
    server = start(grace=0.05)
    gate, _ = gates
    with closing(connected(server)) as connection:
        connection.sendall(that_waits(gate))
        gate.entered()
        assert not server.stop()
        with suppress(ConnectionError):
            assert connection.recv(1) == b""
    gate.open()
