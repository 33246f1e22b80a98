"""Stages on servers of others: a tritonserver and MLServer, alone and behind one of ours."""

from collections.abc import Generator
from contextlib import contextmanager
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
from tests.export.tritonserver import Address
from tests.runtime.backends.peers import mlserver, triton

pytest.importorskip("grpc", reason="the extra `server` is not installed")
pytestmark = pytest.mark.slow

DOUBLE = """
model far = remote "{0}/double" (x: f32[K]) -> (y: f32[K])
model dark = remote "{0}/broken" (x: f32[K]) -> (y: f32[K])

pipeline double(x: f32[K]) -> (y: f32[K]) batch 8 {{
    return y = far(x)
}}

pipeline broken(x: f32[K]) -> (y: f32[K]) batch 8 {{
    return y = dark(x)
}}
"""
TOLD = """
model asked = remote "{0}/told" (x: f32[1]) -> (left: i64[1])
model begin = remote "{0}/repeat:open" (x: i32[1]) -> (all: i64) batch none
model more = remote "{0}/repeat:next" (all: i64) -> (there: bool, n: i32[1]) batch none

pipeline told(x: f32[1]) -> (left: i64[1]) batch 8 {{
    return left = asked(x)
}}

pipeline repeat(x: i32[1]) -> stream (n: i32[1]) {{
    all = begin(x)
    loop (go: bool = true) max 9223372036854775807 {{
        there, n = more(all)
        emit n = n when there
        next go = there
        stop when not there
    }}
}}
"""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Generator[Address]:
    with triton(tmp_path_factory.mktemp("triton")) as address:
        yield address


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Generator[Address]:
    with mlserver(tmp_path_factory.mktemp("mlserver")) as address:
        yield address


def loaded(folder: Path, text: str, address: str) -> headrace.App:
    path = folder / "caller.pipe"
    path.write_text(text.format(address))
    return headrace.load(path)


@contextmanager
def ours(folder: Path, text: str, address: str) -> Generator[Address]:
    """Serve stages on another server by a server of ours."""
    path = folder / "between.pipe"
    path.write_text(text.format(address))
    engine = Engine(headrace.compile(path).plan, EngineConfig(workers=2))
    with serve([engine], ServerConfig(http_port=0, grpc_port=0, metrics_port=0)) as server:
        yield Address(str(server.addresses.http), str(server.addresses.grpc))
    engine.close()


def holds(app: Any, where: str) -> None:
    """Rows come back doubled, and a failure tells what was said, where it is and which stage."""
    for rows in (1, 5, 8):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        assert np.array_equal(app.double(x=x).y, x * 2)
    with pytest.raises(headrace.Fault, match="it is too dark") as caught:
        app.broken(x=np.ones((1, 1), np.float32))
    assert f"{where}/broken" in caught.value.message
    assert (caught.value.code, caught.value.stage) == (headrace.Code.FAILED, "dark")
    assert app.double(x=np.ones((1, 2), np.float32)).y.tolist() == [[2, 2]]


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_a_triton(scheme: str, peer: Address, tmp_path: Path) -> None:
    address = f"{scheme}://{getattr(peer, scheme)}"
    with loaded(tmp_path, DOUBLE, address) as app:
        holds(app, address)


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_an_mlserver(scheme: str, plain: Address, tmp_path: Path) -> None:
    address = f"{scheme}://{getattr(plain, scheme)}"
    with loaded(tmp_path, DOUBLE, address) as app:
        holds(app, address)


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_a_triton_behind_a_server_of_ours(scheme: str, peer: Address, tmp_path: Path) -> None:
    with ours(tmp_path, DOUBLE, f"grpc://{peer.grpc}") as between:
        address = f"{scheme}://{getattr(between, scheme)}"
        with loaded(tmp_path, DOUBLE, address) as app:
            holds(app, address)


def test_the_time_left_and_streams_go_through_a_server_of_ours_to_triton(
    peer: Address, tmp_path: Path
) -> None:
    with (
        ours(tmp_path, TOLD, f"grpc://{peer.grpc}") as between,
        loaded(tmp_path, TOLD, f"grpc://{between.grpc}") as app,
    ):
        x = np.ones((1, 1), np.float32)
        left = app.told.submit(x=x, timeout=40.0).result().left
        assert 0 < int(np.ravel(left)[0]) < 40_000_000
        assert int(np.ravel(app.told(x=x).left)[0]) == 0, "there is no limit"
        for count in (3, 0, 200):
            answers = app.repeat.stream(x=np.array([count], np.int32))
            assert [int(one.n[0]) for one in answers] == list(range(count))


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_what_triton_has_not_is_refused_with_what_it_has(
    scheme: str, peer: Address, tmp_path: Path
) -> None:
    address = f"{scheme}://{getattr(peer, scheme)}"
    with pytest.raises(LoadError) as caught:
        loaded(tmp_path, DOUBLE.replace("/double", "/dubble"), address)
    assert caught.value.code == "HR510"
    assert f"{address}/dubble: " in caught.value.message
    assert "did you mean `double`? it serves broken, double" in str(caught.value.help)
    with pytest.raises(LoadError) as caught:
        loaded(tmp_path, DOUBLE.replace("(x: f32[K])", "(x: f32[K, 2])"), address)
    assert f"{address}/double: its input is declared as x: f32[_, _, 2]" in caught.value.message
    assert "x: f32[_, _]" in str(caught.value.help)


def test_a_model_that_answers_often_is_no_stage_of_one_answer(
    peer: Address, tmp_path: Path
) -> None:
    text = """
model far = remote "{0}/repeat" (x: i32[1]) -> (n: i32[1]) batch none

pipeline p(x: i32[1]) -> (n: i32[1]) {{
    return n = far(x)
}}
"""
    with loaded(tmp_path, text, f"grpc://{peer.grpc}") as app:
        with pytest.raises(headrace.Fault, match="decoupled") as caught:
            app.p(x=np.ones(1, np.int32))
        assert ":open" in caught.value.message
