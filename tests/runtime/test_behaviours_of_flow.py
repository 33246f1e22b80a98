"""Behaviours of fan-outs, results and failures, by name: in a caller's thread, on worker threads
and on the simulated driver. `wire/test_behaviours.py` has those that clients see."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np
import pytest

from headrace.compiler.plan import Plan, TogetherStep
from headrace.runtime.request import Code, Request, RequestError
from headrace.runtime.service import explain
from tests.runtime.behaviour_pipes import MEETING, compiled
from tests.runtime.drivers import (
    Answer,
    Driver,
    Inline,
    Meeting,
    Simulated,
    Threaded,
    right,
    rights,
    switching,
    wrong,
)

DRIVERS: dict[str, Callable[[Plan], "Inline | Simulated | Threaded"]] = {
    "inline": Inline,
    "simulated": Simulated,
    "threads": Threaded,
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return compiled(tmp_path_factory.mktemp("flow"))


@pytest.fixture(params=DRIVERS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def meeting(kind: str) -> Iterator[Meeting]:
    made = sys.modules[MEETING] = Meeting(MEETING, kind == "threads")
    yield made
    del sys.modules[MEETING]


@pytest.fixture
def driver(plan: Plan, kind: str, meeting: Meeting) -> Iterator[Driver]:
    del meeting  # which stages import
    made = DRIVERS[kind](plan)
    with switching() if kind == "threads" else nullcontext():
        yield made
    made.close()


def asking(pipeline: str, name: str, value: object, **more: object) -> Request:
    return Request(pipeline, {name: value}, **more)  # type: ignore[arg-type, dict-item]


def number(value: object) -> float:
    return float(np.asarray(value))


def test_b01_empty_fan_out_runs_nothing_and_keeps_its_types(driver: Driver) -> None:
    (answer,) = driver.ask(asking("pages", "n", 0))
    score, label = (np.asarray(one) for one in right(answer).values())
    assert (score.shape, score.dtype) == ((0, 3), np.float32)
    assert (label.shape, label.dtype) == ((0,), object)
    assert driver.metrics.stage("classify").executions == 0


def test_b01_those_without_boxes_do_not_disturb_those_with_some(driver: Driver) -> None:
    answers = driver.ask(*(asking("pages", "n", n) for n in (0, 3, 0, 1)))
    assert [len(np.asarray(right(one)["label"])) for one in answers] == [0, 3, 0, 1]
    assert driver.metrics.stage("classify").rows == 4


def test_b02_37_items_are_as_37_calls_in_their_order(driver: Driver) -> None:
    (answer,) = driver.ask(asking("pages", "n", 37))
    sizes = driver.metrics.stage("classify").sizes
    assert sum(rows * times for rows, times in sizes.items()) == 37
    assert sum(sizes.values()) >= 5
    assert max(sizes) <= 8
    score, label = right(answer).values()
    boxes = np.arange(37 * 4, dtype=np.float32).reshape(37, 4)
    np.testing.assert_array_equal(score, boxes[:, :3] * 2)
    assert list(np.asarray(label)) == [f"box {i}" for i in range(37)]


def test_b03_a_batch_of_20_is_refused_where_8_are_declared(driver: Driver) -> None:
    rows = np.arange(20, dtype=np.float32)
    with pytest.raises(RequestError, match=r"20 rows.*at most 8"):
        raise wrong(_refused(driver, asking("small", "x", rows)))
    (answer,) = driver.ask(asking("small", "x", rows[:8]))
    np.testing.assert_array_equal(right(answer)["y"], rows[:8] * 2)


def test_b03_a_batch_of_20_is_split_where_the_stage_takes_8(driver: Driver) -> None:
    rows = np.arange(20, 40, dtype=np.float32)
    (answer,) = driver.ask(asking("large", "x", rows))
    np.testing.assert_array_equal(right(answer)["y"], rows * 2)
    assert driver.metrics.stage("check").sizes == {8: 2, 4: 1}


def test_b06_a_default_reaches_every_consumer_nested_ones_too(driver: Driver) -> None:
    (answer,) = driver.ask(asking("outer", "x", 8.0))
    found = {name: number(value) for name, value in right(answer).items()}
    assert found == {"given": 4.0, "passed": 4.0, "left": 16.0}


def test_b11_only_what_feeds_the_wanted_results_runs(driver: Driver) -> None:
    (answer,) = driver.ask(asking("branches", "x", 3.0, outputs=("a",)))
    assert {name: number(value) for name, value in right(answer).items()} == {"a": 4.0}
    assert driver.metrics.stage("check").executions == 0
    assert driver.metrics.stage("alone").executions == 1


def test_b12_an_unknown_result_is_refused_with_those_there_are(driver: Driver) -> None:
    refused = wrong(_refused(driver, asking("branches", "x", 3.0, outputs=("a", "zz"))))
    assert refused.code is Code.INVALID
    assert "no result `zz`; it has `a`, `b`" in str(refused)
    assert driver.metrics.stage("alone").executions == 0


def test_b13_the_third_of_five_fails_with_its_address_and_ends_it(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    (answer,) = driver.ask(asking("five", "x", 11.0))
    fault = wrong(answer)
    assert (fault.code, fault.pipeline, fault.stage) == (Code.FAILED, "five", "third")
    assert "ValueError: thirteen" in fault.message
    assert fault.place is not None
    assert driver.metrics.stage("alone").executions == 2
    assert driver.metrics.stage("other").executions == 0
    with caplog.at_level(logging.ERROR):
        shown = str(explain(fault, "k-9"))
    for part in ("k-9", "pipeline `five`", "stage `third`", "pipes.pipe:", "thirteen"):
        assert part in shown
    (record,) = caplog.records
    assert "k-9" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_b14_one_poisoned_of_eight_fails_alone(driver: Driver, meeting: Meeting) -> None:
    meeting.expect(8)
    answers = driver.ask(*(asking("poison", "x", float(x)) for x in range(10, 18)))
    fault = wrong(answers.pop(3))
    assert (fault.code, fault.stage) == (Code.FAILED, "check")
    assert rights(answers, number) == [20, 22, 24, 28, 30, 32, 34]


def test_b15_whoever_miscounts_gives_nobody_anothers_rows(driver: Driver, meeting: Meeting) -> None:
    meeting.expect(3)
    counts = (1, 2, 1)
    answers = driver.ask(*(asking("count", "x", np.zeros(n, np.float32)) for n in counts))
    for answer in answers:
        fault = wrong(answer)
        assert (fault.code, fault.stage) == (Code.FAILED, "miscount")
        assert "`y` has 3 rows for a batch of" in fault.message


@pytest.mark.slow
def test_b16_five_thousand_requests_meet_nobody_else(plan: Plan, driver: Driver) -> None:
    """Three branches, of which one is a chain, and every ninth a stream of three responses."""
    assert isinstance(plan.pipeline("joined").body.steps[0], TogetherStep)
    requests = [asking("sent" if k % 9 == 0 else "joined", "k", k) for k in range(5000)]
    if isinstance(driver, Inline):
        requests = requests[:500]
    answers = driver.ask(*requests)
    for k, answer in enumerate(answers):
        found = np.asarray(right(answer)["k"]).tolist()
        assert found == ([k] * 3 if k % 9 == 0 else k)


def test_b17_only_the_rows_that_need_it_reach_an_arm(driver: Driver) -> None:
    rows = np.array([30, 1, 40, 2, 50], np.float32)
    answers = driver.ask(asking("chosen", "x", rows), asking("chosen", "x", rows[1::2]))
    first, second = (np.asarray(right(one)["y"]) for one in answers)
    assert first.tolist() == [3000, 0.5, 4000, 0.5, 5000]
    assert second.tolist() == [0.5, 0.5]
    assert first.dtype == second.dtype == np.float32
    assert driver.metrics.stage("expensive").rows == 3


def _refused(driver: Driver, request: Request) -> Answer:
    """Ask for what may be refused before it is taken in."""
    try:
        (answer,) = driver.ask(request)
    except RequestError as error:
        return error
    return answer
