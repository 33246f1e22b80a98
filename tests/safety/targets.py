"""What fuzzing calls: each takes any bytes, and raises only where there is a bug."""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.grpc.call import CallError, Method
from headrace.runtime.grpc.methods import inference_methods
from headrace.runtime.grpc.status import Status
from headrace.runtime.http import HttpFront
from headrace.runtime.protocols.generate_codec import decode_generate
from headrace.runtime.protocols.json_codec import decode_body
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.protocols.operations import all_operations
from headrace.runtime.repository.repository import Repository
from headrace.runtime.request import Code, Fault
from headrace.runtime.service import Service
from tests.runtime.wire.plans import toy_model, toy_plan

MODELS: Final = ("echo_f32", "echo_bytes", "two", "rows", "ragged", "scalar_string", "optional")
OURS: Final = frozenset({Code.INTERNAL, Code.FAILED})


@cache
def _model(name: str) -> Any:  # Any: a Model
    return toy_model(name)


@cache
def _service() -> Service:
    engine = Engine(toy_plan(), EngineConfig(workers=1))
    repository = Repository(engine.config)
    repository.adopt("toys", engine, 1)
    made = Service(repository, Limits())
    made.set_ready(True)
    return made


@cache
def _front() -> HttpFront:
    return HttpFront(_service(), all_operations("1"))


@cache
def _infer() -> Method:
    methods = inference_methods(_service(), all_operations("1"))
    return methods.unary["/inference.GRPCInferenceService/ModelInfer"]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _refused(fault: Fault) -> None:
    if fault.code in OURS:
        raise fault


def decode_http(data: bytes) -> None:
    """The first byte says which model, the next two how long the JSON is."""
    model = _model(MODELS[data[0] % len(MODELS)] if data else MODELS[0])
    length, body = int.from_bytes(data[1:3]), data[3:]
    for json_length in (None, length, 0):
        try:
            decode_body(model, body, json_length, Limits(), lambda: 0.0)
        except Fault as fault:
            _refused(fault)
    try:
        decode_generate(model, body, Limits(), 0.0)
    except Fault as fault:
        _refused(fault)


def call_grpc(data: bytes) -> None:
    """A whole call, its answer included; what waits for others is not waited for."""
    try:
        _infer()(data, 0.001, {})
    except CallError as error:
        if error.status is Status.INTERNAL and "marker" not in error.message:
            raise


def ask_http(data: bytes) -> None:
    """A request as the server's parser gives it: a line, headers, a body."""
    head, _, body = data.partition(b"\n\n")
    line, *lines = head.split(b"\n")
    method, _, path = line.partition(b" ")
    headers = [(name.lower(), value) for name, _, value in (one.partition(b":") for one in lines)]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1") or "GET",
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:  # Any: ASGI
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:  # Any: ASGI
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    _loop().run_until_complete(asyncio.ensure_future(_run(scope, receive, send), loop=_loop()))
    if any(status == 500 for status in statuses) and b"marker" not in data:
        raise AssertionError(statuses)


async def _run(scope: Any, receive: Any, send: Any) -> None:  # Any: ASGI
    await _front()(scope, receive, send)


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = MappingProxyType(
    {"decode_http": decode_http, "call_grpc": call_grpc, "ask_http": ask_http}
)


def seeds(target: str, http: list[bytes], grpc: list[bytes]) -> list[bytes]:
    """Return entries of the corpus as a target takes them."""
    match target:
        case "call_grpc":
            return grpc
        case "ask_http":
            return [one.replace(b" HTTP/1.1", b"").replace(b"\r\n", b"\n") for one in http]
        case _:
            bodies = [one.partition(b"\r\n\r\n")[2] for one in http]
            lengths = [max(one.rfind(b"}") + 1, 0) for one in bodies]
            return [
                bytes((number,)) + length.to_bytes(2) + body
                for number, (body, length) in enumerate(zip(bodies, lengths, strict=True))
            ]
