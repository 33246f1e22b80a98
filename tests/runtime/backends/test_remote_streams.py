"""A stage on another server that answers any number of times: what comes through, how it ends."""

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

import headrace
from headrace.runtime.engine import Engine
from headrace.runtime.engine_config import EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.server import serve
from headrace.runtime.server_config import ServerConfig

pytest.importorskip("grpc", reason="the extra `server` is not installed")

SERVED = """
fn limit(n: i64) -> (n: i64) = python "limit.py:limit"

pipeline count(most: i64) -> stream (n: i64, word: string) {
    loop (n: i64 = 0) max most {
        emit n = limit(n), word = "so"
        next n = n + 1
    }
}
"""
LIMIT = """
def limit(n):
    if n == 100:
        raise ValueError("that is too much")
    return n
"""
ENDLESS = SERVED.replace("limit(n)", "n")
RELAY = """
model begin = remote "{0}:open" (most: i64) -> (all: i64) batch none
model more = remote "{0}:next" (all: i64) -> (there: bool, n: i64, word: string) batch none

pipeline count(most: i64) -> stream (n: i64, word: string) {{
    all = begin(most)
    loop (go: bool = true) max 9223372036854775807 {{
        there, n, word = more(all)
        emit n = n, word = word when there
        next go = there
        stop when not there
    }}
}}
"""


class Served(NamedTuple):
    engine: Engine
    address: str
    http: str


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Generator[Served]:
    (tmp_path / "limit.py").write_text(LIMIT)
    (tmp_path / "served.pipe").write_text(getattr(request, "param", SERVED))
    engine = Engine(headrace.compile(tmp_path / "served.pipe").plan, EngineConfig(workers=2))
    with serve([engine], ServerConfig(http_port=0, grpc_port=0, metrics_port=0)) as server:
        where = server.addresses
        yield Served(engine, f"grpc://{where.grpc}/count", f"http://{where.http}/count")
    engine.close()


def relay(folder: Path, address: str, text: str = RELAY) -> headrace.App:
    path = folder / "relay.pipe"
    path.write_text(text.format(address))
    return headrace.load(path)


def test_answers_come_in_order_through_two_servers_and_more_at_once(
    served: Served, tmp_path: Path
) -> None:
    with relay(tmp_path, served.address) as app:
        assert [(int(one.n), one.word) for one in app.count.stream(most=3)] == [
            (n, "so") for n in range(3)
        ]
        assert list(app.count.stream(most=0)) == []
        others = [iter(app.count.stream(most=20)) for _ in range(3)]
        for wanted in range(20):
            assert [int(next(one).n) for one in others] == [wanted] * 3


def test_a_failure_comes_behind_the_answers_before_it_and_says_where(
    served: Served, tmp_path: Path
) -> None:
    with relay(tmp_path, served.address) as app:
        found: list[int] = []
        with pytest.raises(headrace.Fault, match="that is too much") as caught:
            found.extend(int(one.n) for one in app.count.stream(most=200))
        assert found == list(range(100))
        assert served.address in caught.value.message
        assert (caught.value.code, caught.value.stage) == (headrace.Code.FAILED, "more")
        assert len(list(app.count.stream(most=2))) == 2


@pytest.mark.parametrize("served", [ENDLESS], indirect=True)
def test_a_reader_that_leaves_or_is_late_ends_the_request_at_the_server(
    served: Served, tmp_path: Path
) -> None:
    with relay(tmp_path, served.address) as app:
        for number, one in enumerate(app.count.stream(most=1 << 60)):
            assert int(one.n) == number
            if number == 50:
                break
        served.engine.settle()  # returns when nothing is under way there
        with pytest.raises(headrace.Fault) as caught:
            list(app.count.stream(most=1 << 60, timeout=0.2))
        assert caught.value.code is headrace.Code.DEADLINE
        served.engine.settle()


@pytest.mark.parametrize("served", [ENDLESS], indirect=True)
def test_an_app_is_closed_over_a_stream_that_somebody_reads(served: Served, tmp_path: Path) -> None:
    app = relay(tmp_path, served.address)
    reading = iter(app.count.stream(most=1 << 60))
    assert int(next(reading).n) == 0
    app.close()
    with contextlib.suppress(headrace.Fault):  # what was there already is still given
        list(reading)
    served.engine.settle()


@pytest.mark.parametrize(
    ("wrong", "right", "said", "cure"),
    [
        (" batch none\nmodel more", "\nmodel more", "and no batch", "add `batch none`"),
        ("(all: i64) batch", "(all: i32) batch", "gives a handle", "declare `-> (handle: i64)`"),
        ("(there: bool, n", "(there: i64, n", "whether there is one", "(there: bool, ...)"),
        ("most: i64) -> (all", "most: f32) -> (all", "declared as most: f32", "most: i64"),
    ],
)
def test_a_part_that_is_declared_otherwise_is_refused_when_loaded(
    wrong: str, right: str, said: str, cure: str, served: Served, tmp_path: Path
) -> None:
    models, _, _ = RELAY.partition("pipeline")
    assert wrong in models
    text = models.replace(wrong, right) + (
        f"pipeline p(most: {'f32' if 'f32' in right else 'i64'}) -> (n: i64) {{{{\n"
        "    all = begin(most)\n"
        f"    _, n, _ = more({'cast(all, i64)' if 'i32' in right else 'all'})\n"
        "    return n = n\n}}\n"
    )
    with pytest.raises(LoadError, match=said) as caught:
        relay(tmp_path, served.address, text)
    assert caught.value.code == "HR510"
    assert cure in str(caught.value.help)


def test_streams_go_over_grpc_alone(served: Served, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="over gRPC alone") as caught:
        relay(tmp_path, served.http)
    assert "grpc://" in str(caught.value.help)
