"""Behaviours that other servers are known to get wrong, by name, as stock clients see them.

Each is asked for over HTTP with JSON, over HTTP with binary tensors and over gRPC.
"""

import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.behaviour_pipes import FUNCTIONS, MEETING, PIPE, compiled
from tests.runtime.drivers import Meeting
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.ways import WAYS, Way, words

WIDE = """
fn doubled(x: f32[16]) -> (y: f32[16]) = python "functions.py:doubled" batched pure
pipeline free(x: f32[N, M]) -> (y: f32[N, M]) { return y = x }
pipeline wide(x: f32[16]) -> (y: f32[16]) batch 8 { return y = doubled(x) }
schedule wide on "server" { doubled { batch { max = 8, wait = 2ms } } }
"""
DOUBLED = """
def doubled(xs):
    return xs * 2
"""
F32 = np.float32


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return compiled(tmp_path_factory.mktemp("wire"), PIPE + WIDE, FUNCTIONS + DOUBLED)


@pytest.fixture(scope="module")
def meeting() -> Iterator[Meeting]:
    made = sys.modules[MEETING] = Meeting(MEETING, together=True)
    yield made
    del sys.modules[MEETING]


@pytest.fixture(scope="module")
def engine(plan: Plan, meeting: Meeting) -> Iterator[Engine]:
    del meeting  # which stages import
    engine = Engine(plan, EngineConfig(workers=8, intra_op_threads=1))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def asked(engine: Engine) -> Iterator[Server]:
    with serve([engine], free_ports(Carrier.AUTO)) as server:
        yield server


@pytest.fixture(params=WAYS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def way(asked: Server, name: str) -> Iterator[Way]:
    with Way(asked, name) as made:
        yield made


def rows(*values: float) -> np.ndarray:
    return np.array(values, F32)


def test_b01_empty_fan_out(way: Way, engine: Engine) -> None:
    before = engine.metrics.stage("classify").executions
    answer = way.ask("pages", n=np.array([0]))
    assert (answer["score"].shape, answer["score"].dtype) == ((0, 3), F32)
    assert (answer["label"].shape, answer["label"].dtype) == ((0,), np.object_)
    assert engine.metrics.stage("classify").executions == before


def test_b02_fan_out_above_the_largest_batch(way: Way) -> None:
    answer = way.ask("pages", n=np.array([37]))
    boxes = np.arange(37 * 4, dtype=F32).reshape(37, 4)
    np.testing.assert_array_equal(answer["score"], boxes[:, :3] * 2)
    assert words(answer["label"]) == [f"box {i}" for i in range(37)]


def test_b03_a_batch_above_the_limit_is_refused_or_split_as_declared(way: Way) -> None:
    twenty = np.arange(20, 40, dtype=F32)
    with pytest.raises(InferenceServerException, match=r"20 rows.*at most 8") as error:
        way.ask("small", x=twenty[:, None])
    assert error.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    answer = way.ask("large", x=twenty[:, None])
    assert answer["y"].ravel().tolist() == (twenty * 2).tolist()


@pytest.mark.parametrize("shape", [[-1, 1], [-5, 1], [1, -5], [2**62, 4], [2**32, 2**32]], ids=str)
def test_b04_bad_dimensions_name_the_input_and_the_next_request_works(
    way: Way, shape: list[int]
) -> None:
    with pytest.raises(InferenceServerException, match="input `x`") as error:
        way.infer("free", way.tensor("x", rows(1.0), shape))
    assert error.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    assert way.ask("free", x=rows(4.0)[:, None])["y"].tolist() == [[4.0]]


def test_b05_who_lies_about_its_bytes_disturbs_nobody_in_its_batch(asked: Server) -> None:
    """Beside eight clients which tell the truth, eight do not: all at once, again and again."""
    draw = np.random.default_rng(0)
    given = [draw.standard_normal((1, 16)).astype(F32) for _ in range(8)]
    with Way(asked, WAYS[0]) as way:
        alone = [way.ask("wide", x=one)["y"].tobytes() for one in given]

    def ask(number: int) -> None:
        with Way(asked, WAYS[number % 3]) as own:
            for turn in range(10):
                if number < 8:
                    assert own.ask("wide", x=given[number])["y"].tobytes() == alone[number]
                    continue
                carried = np.zeros(8 if turn % 2 else 32, F32)  # 32 bytes, 128 bytes
                with pytest.raises(InferenceServerException) as error:
                    own.infer("wide", own.tensor("x", carried, [1, 16]))
                assert error.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))


def test_b06_optional_input_left_out(way: Way) -> None:
    answer = way.ask("outer", x=rows(8.0))
    found = {name: one.item() for name, one in answer.items()}
    assert found == {"given": 4.0, "passed": 4.0, "left": 16.0}


def test_b11_subset_of_outputs(way: Way, engine: Engine) -> None:
    before = engine.metrics.stage("check").executions
    answer = way.infer("branches", way.tensor("x", rows(3.0)), outputs=["a"])
    assert {name: one.tolist() for name, one in answer.items()} == {"a": [4.0]}
    assert engine.metrics.stage("check").executions == before


def test_b12_unknown_output(way: Way) -> None:
    with pytest.raises(InferenceServerException, match=r"zz.*`a`, `b`") as error:
        way.infer("branches", way.tensor("x", rows(3.0)), outputs=["a", "zz"])
    assert error.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


def test_b13_error_with_an_address(
    way: Way, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    before = engine.metrics.stage("other").executions
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(InferenceServerException) as error,
    ):
        way.infer("five", way.tensor("x", rows(11.0)), request_id="k-13")
    assert error.value.status() in ("500", "StatusCode.INTERNAL")
    shown = error.value.message()
    for part in ("k-13", "pipeline `five`", "stage `third`", "pipes.pipe:", "ValueError: thirteen"):
        assert part in shown
    assert engine.metrics.stage("other").executions == before
    (line,) = [one for one in caplog.records if "k-13" in one.getMessage()]
    assert "stage `third`" in line.getMessage()


def test_b14_poison_item(name: str, asked: Server, meeting: Meeting) -> None:
    meeting.expect(8)

    def ask(number: int) -> float | str:
        with Way(asked, name) as way:
            try:
                return way.ask("poison", x=rows(number))["y"].item()
            except InferenceServerException as error:
                return error.message()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(10, 18)))
    fault = answers.pop(3)
    assert answers == [20, 22, 24, 28, 30, 32, 34]
    assert isinstance(fault, str)
    assert "ValueError: thirteen" in fault


def test_b15_wrong_row_count_from_a_model(name: str, asked: Server, meeting: Meeting) -> None:
    meeting.expect(3)

    def ask(count: int) -> str:
        with Way(asked, name) as way, pytest.raises(InferenceServerException) as error:
            way.ask("count", x=np.zeros((count, 1), F32))
        return error.value.message()

    with ThreadPoolExecutor(3) as pool:
        for fault in pool.map(ask, (1, 2, 1)):
            assert "stage `miscount`" in fault
            assert "`y` has 3 rows for a batch of" in fault


def test_b16_join_by_identity(name: str, asked: Server) -> None:
    def ask(number: int) -> None:
        with Way(asked, name) as way:
            for k in range(number * 1000, number * 1000 + 20):
                tensor = way.tensor("k", np.array([k]))
                assert way.infer("joined", tensor, outputs=["k"])["k"].item() == k

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))


def test_b17_conditional(way: Way, engine: Engine) -> None:
    before = engine.metrics.stage("expensive").rows
    answer = way.ask("chosen", x=rows(30, 1, 40, 2, 50)[:, None])
    assert answer["y"].ravel().tolist() == [3000, 0.5, 4000, 0.5, 5000]
    assert answer["y"].dtype == F32
    assert engine.metrics.stage("expensive").rows == before + 3
