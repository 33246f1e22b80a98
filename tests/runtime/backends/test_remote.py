"""A stage on another server: what goes with its requests, and what becomes of its failures."""

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.runtime.engine import Engine
from headrace.runtime.engine_config import EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.server import serve
from headrace.runtime.server_config import ServerConfig

pytest.importorskip("grpc", reason="the extra `server` is not installed")

TELL = """
import headrace

def tell(x, context: headrace.Context):
    if x < 0:
        raise ValueError("it is negative")
    left = context.remaining()
    return -1.0 if left is None else left, context.priority, context.id
"""
SERVED = """
fn tell(x: f32) -> (left: f64, priority: i64, id: string) = python "tell.py:tell"

pipeline told(x: f32) -> (left: f64, priority: i64, id: string) {
    left, priority, id = tell(x)
    return left = left, priority = priority, id = id
}

schedule told {
    priority { levels = 9 }
}
"""
CALLER = """
model far = remote "%s" (x: f32) -> (left: f64, priority: i64, id: string) batch none

pipeline p(x: f32) -> (left: f64, priority: i64, id: string) {
    left, priority, id = far(x)
    return left = left, priority = priority, id = id
}

schedule p {
    priority { levels = 9 }
}
"""


@contextmanager
def served(folder: Path, text: str = SERVED, port: int = 0) -> "Generator[tuple[str, str]]":
    """Serve a program; gives where, over gRPC and over HTTP."""
    (folder / "tell.py").write_text(TELL)
    (folder / "served.pipe").write_text(text)
    engine = Engine(headrace.compile(folder / "served.pipe").plan, EngineConfig(workers=2))
    config = ServerConfig(http_port=0, grpc_port=port, metrics_port=0)
    with serve([engine], config) as server:
        yield f"grpc://{server.addresses.grpc}", f"http://{server.addresses.http}"
    engine.close()


def calling(folder: Path, address: str, text: str = CALLER) -> headrace.App:
    path = folder / "caller.pipe"
    path.write_text(text % address)
    return headrace.load(path)


def one(value: Any) -> Any:
    return np.asarray(value).reshape(-1)[0]


@pytest.mark.slow
def test_the_time_left_and_the_priority_go_along(tmp_path: Path) -> None:
    with served(tmp_path) as addresses:
        for address in addresses:
            with calling(tmp_path, f"{address}/told") as app:
                told = app.p.submit(x=1.0, timeout=50.0, priority=3).result()
                assert 0 < one(told.left) < 50
                assert one(told.priority) == 3
                assert one(app.p(x=1.0).left) == -1


def test_a_failure_there_fails_the_row_here_and_says_where(tmp_path: Path) -> None:
    with served(tmp_path) as addresses:
        for address in addresses:
            with calling(tmp_path, f"{address}/told") as app:
                with pytest.raises(headrace.Fault, match=r"/told: .*it is negative") as caught:
                    app.p(x=-1.0)
                assert (caught.value.code, caught.value.stage) == (headrace.Code.FAILED, "far")
                assert one(app.p(x=1.0).priority) == 9, "the least, as it has none"


def test_a_model_that_the_server_has_not_or_has_otherwise_is_refused_when_loaded(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as addresses:
        for address in addresses:
            with pytest.raises(LoadError, match="other") as caught:
                calling(tmp_path, f"{address}/other")
            assert caught.value.code == "HR510"
            with pytest.raises(LoadError, match="left: f32, and its server has left: f64"):
                calling(tmp_path, f"{address}/told", CALLER.replace("left: f64", "left: f32"))


@pytest.mark.slow
def test_a_server_may_come_later_and_go_for_a_while(tmp_path: Path) -> None:
    with served(tmp_path) as (address, _):
        port = int(address.rpartition(":")[2])
    with calling(tmp_path, f"{address}/told") as app:
        with pytest.raises(headrace.Fault) as caught:
            app.p(x=1.0)
        assert caught.value.code is headrace.Code.UNAVAILABLE
        assert "/told" in caught.value.message
        with served(tmp_path, port=port):
            assert until_it_answers(app) == 9


def until_it_answers(app: headrace.App) -> int:
    """Call until gRPC has connected again, which it tries from time to time."""
    while True:
        try:
            return int(one(app.p(x=1.0).priority))
        except headrace.Fault as fault:
            if fault.code is not headrace.Code.UNAVAILABLE:
                raise


@pytest.mark.slow
def test_a_server_that_comes_again_with_another_model_is_seen_to_have_another(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as (address, _):
        port = int(address.rpartition(":")[2])
        app = calling(tmp_path, f"{address}/told")
        assert one(app.p(x=1.0).priority) == 9
    other = """
pipeline told(x: f32[3]) -> (left: f64[3]) {
    return left = cast(x, f64)
}
"""
    with app, served(tmp_path, other, port):
        with pytest.raises(headrace.Fault):
            until_it_answers(app)  # is refused, if not compared: it may be another by now
        with pytest.raises(headrace.Fault, match="input is declared as x: f32, and") as caught:
            app.p(x=1.0)
        assert f"{address}/told: " in caught.value.message
        assert "declare what the server has: x: f32[3]" in caught.value.message
        assert (caught.value.code, caught.value.stage) == (headrace.Code.FAILED, "far")


def test_a_program_goes_on_without_a_server_where_it_says_how(tmp_path: Path) -> None:
    text = """
model far = remote "%s" (x: f32) -> (y: f32)

pipeline p(x: f32) -> (y: f32) {
    return y = try far(x) else x * 2
}
"""
    with calling(tmp_path, "http://127.0.0.1:9/far", text) as app:
        assert one(app.p(x=3.0).y) == 6


class JsonOnly(BaseHTTPRequestHandler):
    """A server of the protocol's core: no extensions, tensors as JSON, one without metadata."""

    protocol_version = "HTTP/1.1"
    asked: "list[dict[str, Any]]"

    def do_GET(self) -> None:
        about: dict[str, Any] = {"name": "plain", "extensions": []}
        if self.path.startswith("/v2/models/doubled"):
            shape = {"datatype": "FP32", "shape": [-1, 2]}
            about = {"inputs": [{"name": "in", **shape}], "outputs": [{"name": "out", **shape}]}
        self._answer(200, about)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(asked)
        (given,) = asked["inputs"]
        if self.path.startswith("/v2/models/busy"):
            self._answer(503, {"error": "come back later"}, {"Retry-After": "7"})
            return
        if self.path.startswith("/v2/models/broken"):
            self._answer(200, {"outputs": [{**given, "name": "y", "data": ["no number"]}]})
            return
        values = [[2 * one for one in given["data"]]]  # nested, as some servers write it
        shape = given["shape"]
        self._answer(200, {"outputs": [{**given, "name": "out", "shape": shape, "data": values}]})

    def _answer(self, status: int, about: Any, headers: "dict[str, str] | None" = None) -> None:
        content = json.dumps(about).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def plain() -> "Iterator[tuple[str, list[dict[str, Any]]]]":
    asked: list[dict[str, Any]] = []
    handler = type("Handler", (JsonOnly,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()
        thread.join()


DOUBLED = """
model far = remote "%s" (x: f32[2]) -> (y: f32[2])

pipeline p(x: f32[2]) -> (y: f32[2]) batch 8 {
    return y = far(x)
}
"""


def test_a_server_without_extensions_is_sent_json_with_its_own_names(
    plain: "tuple[str, list[dict[str, Any]]]", tmp_path: Path
) -> None:
    address, asked = plain
    with calling(tmp_path, f"{address}/doubled/3", DOUBLED) as app:
        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        assert np.array_equal(app.p(x=x).y, x * 2)
    (request,) = asked
    assert request["inputs"][0]["name"] == "in"
    assert request["inputs"][0]["data"] == [0, 1, 2, 3, 4, 5]
    assert request["outputs"] == [{"name": "out"}]


def test_what_a_server_says_of_its_load_reaches_the_caller(
    plain: "tuple[str, list[dict[str, Any]]]", tmp_path: Path
) -> None:
    with calling(tmp_path, f"{plain[0]}/busy", DOUBLED) as app:
        with pytest.raises(headrace.Fault, match="come back later") as caught:
            app.p(x=np.ones((2, 2), np.float32))
        assert caught.value.code is headrace.Code.UNAVAILABLE
        assert caught.value.retry_after == 7
    assert len(plain[1]) == 1, "what a server is too busy for is not tried again row by row"


def test_an_answer_that_is_none_is_a_failure_of_the_stage(
    plain: "tuple[str, list[dict[str, Any]]]", tmp_path: Path
) -> None:
    with calling(tmp_path, f"{plain[0]}/broken", DOUBLED) as app:
        with pytest.raises(headrace.Fault, match="its answer is broken") as caught:
            app.p(x=np.ones((1, 2), np.float32))
        assert (caught.value.code, caught.value.stage) == (headrace.Code.FAILED, "far")
