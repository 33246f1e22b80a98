"""What is closed is closed in every spelling, by every method; the list is that of the routers."""

import re
import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.access import OPEN, Access
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.operations import all_operations
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.plans import toy_plan

CLOSED = sorted(
    {
        re.sub(r"\{\w+\}", "two", path)
        for operation in all_operations("1")
        if operation.access not in OPEN
        for _, path in operation.routes
    }
)
METHODS = ("GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "post", "PROPFIND")
OVERRIDES = ("X-HTTP-Method-Override: POST", "X-Original-URL: /v2/logging", "X-Rewrite-URL: /v2")
MAY = {400, 403, 404, 405, 411}


def spellings(path: str) -> Iterator[str]:
    """The path, and what some server or other takes for the same."""
    yield path
    yield path + "/"
    yield path + "?x=1"
    yield path + ";x=1"
    yield path + "#x"
    yield path + "%00"
    yield path + "%20"
    yield path + "/."
    yield path + "/%2e"
    yield path + "//"
    yield "/" + path
    yield path.replace("/", "//")
    yield path.replace("/", "/./")
    yield path.replace("/", "/%2e/")
    yield path.replace("/v2", "/v2/x/..")
    yield path.replace("/v2", "/v2/x/%2e%2e")
    yield path.replace("/v2/", "/v2%2F")
    yield path.replace("/v2/", "/v2%2f")
    yield path.replace("/v2/", "/v2%5c")
    yield path.replace("/v2/", "/v2\\")
    yield path.replace("/v2/", "/v2/;x/")
    yield path.upper()
    yield "/v2/" + "".join(f"%{ord(letter):02x}" for letter in path[4:])
    yield "/v2/" + path[4:].replace("o", "%6F").replace("e", "%65")
    yield "/v2/" + path[4:].replace("o", "%256F")
    yield path.replace("/v2/", "/v2/health/live/../../")
    yield f"http://x{path}"
    yield f"http://x:y@127.0.0.1{path}"
    yield f"//x{path}"


@pytest.fixture(scope="module")
def default() -> Iterator[Server]:
    engine = Engine(toy_plan(), EngineConfig(workers=2))
    with closing(engine), serve([engine], free_ports(Carrier.AUTO)) as server:
        yield server


class Raw:
    """One connection that is opened again where the server closes it."""

    def __init__(self, server: Server) -> None:
        host, _, port = str(server.addresses.http).rpartition(":")
        self._address = (host, int(port))
        self._open()

    def _open(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=60)
        self._reader = self._socket.makefile("rb")

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def ask(self, method: str, target: str, version: str = "1.1", *headers: str) -> int:
        """Return the status; 400 where the server just closes."""
        lines = "".join(
            f"{line}\r\n" for line in ("Host: localhost", "Content-Length: 0", *headers)
        )
        head = f"{method} {target} HTTP/{version}\r\n{lines}\r\n".encode("latin-1")
        with suppress(OSError):
            self._socket.sendall(head)
        status, length, closes = 400, 0, version == "1.0"
        with suppress(OSError):
            line = self._reader.readline()
            status = int(line.split()[1]) if line else 400
            closes = closes or not line
            while (line := self._reader.readline().lower()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                length = int(value) if name == b"content-length" else length
                closes = closes or (name == b"connection" and b"close" in value)
            if method != "HEAD":
                self._reader.read(length)
        if closes:
            self.close()
            self._open()
        return status


@pytest.fixture(scope="module")
def raw(default: Server) -> Iterator[Raw]:
    with closing(Raw(default)) as made:
        yield made


def test_there_is_something_closed() -> None:
    assert len(CLOSED) > 8


@pytest.mark.parametrize("path", CLOSED)
def test_no_spelling_of_what_is_closed_is_open(raw: Raw, path: str) -> None:
    for target in spellings(path):
        for method in ("GET", "POST"):
            assert raw.ask(method, target) in MAY, (method, target)


@pytest.mark.parametrize("method", METHODS)
def test_no_method_opens_what_is_closed(raw: Raw, method: str) -> None:
    for path in CLOSED:
        for version in ("1.1", "1.0"):
            assert raw.ask(method, path, version) in MAY
        for header in OVERRIDES:
            assert raw.ask(method, path, "1.1", header) in MAY


def test_refusals_are_alike_for_what_exists_and_what_does_not(raw: Raw) -> None:
    for path in CLOSED:
        there, not_there = raw.ask("POST", path), raw.ask("POST", path.replace("two", "nothing"))
        assert there == not_there


def test_no_header_makes_an_open_path_a_closed_one(raw: Raw) -> None:
    for path in CLOSED:
        for name in ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Path", "Content-Location"):
            assert raw.ask("GET", "/v2/health/live", "1.1", f"{name}: {path}") == 200
    assert raw.ask("GET", "/v2/models/two/ready") == 200  # nothing was unloaded meanwhile


PARTS = ("v2", "repository", "models", "two", "load", "unload", "logging", "trace", "setting")
ODD = (*PARTS, "..", ".", "", "%2e", "%2F", ";x", "\\", "%00", "systemsharedmemory", "register")


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 5)
@given(
    st.sampled_from(("GET", "POST")),
    st.lists(st.sampled_from(ODD), min_size=1, max_size=9),
    st.sampled_from(("/", "//", "/./", "%2f")),
)
def test_no_path_of_such_parts_changes_anything(
    raw: Raw, method: str, parts: list[str], between: str
) -> None:
    path = between.join(("", *parts))
    status = raw.ask(method, path if path.startswith("/") else f"/{path}")
    assert status in MAY or (status in (200, 307) and method == "GET")


CLOSED_CALLS = [
    operation.rpc
    for operation in all_operations("1")
    if operation.rpc and operation.access not in OPEN
]


@pytest.mark.parametrize("name", CLOSED_CALLS)
def test_no_spelling_of_a_call_that_is_closed_is_open(default: Server, name: str) -> None:
    refused = {
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
    }
    service = "inference.GRPCInferenceService"
    with grpc.insecure_channel(str(default.addresses.grpc)) as channel:
        for path in (
            f"/{service}/{name}",
            f"/{service}/{name}/",
            f"//{service}/{name}",
            f"/{service}//{name}",
            f"/{service}/./{name}",
            f"/{service}/{name.lower()}",
            f"/{service.upper()}/{name}",
            f"/{service}/%{ord(name[0]):02x}{name[1:]}",
            f"/{service}%2F{name}",
            f"/x/../{service}/{name}",
            f"/{service}/{name}?x=1",
        ):
            with pytest.raises(grpc.RpcError) as error:
                channel.unary_unary(path)(b"", timeout=60)
            assert error.value.code() in refused  # pyright: ignore[reportAttributeAccessIssue] - a Call


def test_every_kind_of_operation_is_open_or_closed_by_one_function() -> None:
    kinds = {operation.access for operation in all_operations("1")}
    assert kinds == set(Access)
