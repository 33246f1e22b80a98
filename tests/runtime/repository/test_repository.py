"""Loading, swapping, draining and letting go while requests come."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from random import Random

import numpy as np
import pytest

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.forms import NoForm
from headrace.runtime.repository.policy import All, Latest, Policy, Specific
from headrace.runtime.repository.repository import Repository
from headrace.runtime.repository.state import LoadFailed, State, Unknown
from headrace.runtime.repository.version import Candidate
from headrace.runtime.request import Code, EngineClosed, Fault, InSequence, Request
from tests.runtime.plans import PlanMaker, block, fields
from tests.runtime.repository.plans import GATES, LoadGate, adding, ask, serving, summing
from tests.runtime.repository.test_shared import run_all, sessions

Make = Callable[..., Repository]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make repositories, which are closed in the end."""
    made: list[Repository] = []

    def begin(policy: Policy | None = None) -> Repository:
        policies = {} if policy is None else {"": policy}
        made.append(Repository(EngineConfig(workers=2), policies=policies))
        return made[-1]

    yield begin
    for gate in GATES.values():
        gate.open()
    GATES.clear()
    for repository in made:
        repository.close()


def states(repository: Repository) -> set[tuple[str, int, State]]:
    return {(entry.pipeline, entry.version, entry.state) for entry in repository.index()}


def done(future: "Future[None] | Future[bool]") -> None:
    future.result(20)


def test_a_plan_that_is_loaded_answers(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", adding(1.0))
    assert ask(service) == (1.0, "1")
    assert states(repository) == {("p", 1, State.READY)}
    assert repository.app_of("p") == repository.app_of("app") == "app"


def test_another_plan_takes_the_place_of_what_is_served(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", adding(1.0))
    (first,) = repository.engines
    hashes = {entry.hash for entry in repository.index()}
    repository.load("app", adding(2.0))
    assert ask(service) == (2.0, "1")
    eventually_only(repository, 1)
    assert first.unready
    assert {entry.hash for entry in repository.index()} != hashes


def eventually_only(repository: Repository, count: int) -> None:
    """Wait until what drains has been closed."""
    for thread in threading.enumerate():
        if thread.name.startswith("headrace-drain"):
            thread.join(20)
    assert len(repository.engines) == count


def test_the_same_plan_again_changes_nothing(make: Make) -> None:
    repository = make()
    repository.load("app", adding(1.0))
    before = repository.engines
    repository.load("app", adding(1.0))
    assert repository.engines == before
    assert states(repository) == {("p", 1, State.READY)}


def test_a_higher_version_lets_the_one_before_go(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", adding(1.0))
    repository.load("app", adding(2.0), version=2)
    assert ask(service) == (2.0, "2")
    with pytest.raises(Fault, match="Request for unknown model: 'p' version 1"):
        ask(service, version="1")


def test_versions_are_served_side_by_side_where_the_policy_says_so(make: Make) -> None:
    repository = make(All())
    service = serving(repository)
    repository.load("app", adding(1.0))
    repository.load("app", adding(2.0), version=2)
    assert ask(service, version="1") == (1.0, "1")
    assert ask(service, version="2") == ask(service) == (2.0, "2")
    assert service.versions("p") == ("1", "2")


def test_a_version_that_the_policy_does_not_serve_is_not_loaded(make: Make) -> None:
    repository = make(Specific(frozenset({1, 3})))
    with pytest.raises(LoadFailed, match="its policy is specific:1,3"):
        repository.load("app", adding(1.0), version=2)
    assert repository.engines == ()


def test_a_version_that_cannot_be_loaded_changes_nothing(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", adding(1.0))
    before = repository.engines
    GATES["bad"] = LoadGate(broken=True, shut=False)
    with pytest.raises(LoadFailed, match="`app` version 2 was not loaded") as it:
        repository.load("app", adding(2.0, gate="bad"), version=2)
    assert it.value.__cause__ is it.value.cause
    assert ask(service) == (1.0, "1")
    assert repository.engines == before
    assert states(repository) == {("p", 1, State.READY), ("app", 2, State.FAILED)}
    reasons = [entry.reason for entry in repository.index() if entry.state is State.FAILED]
    assert "no such weights" in reasons[0]
    assert service.ready


def test_a_failure_is_forgotten_with_the_next_success(make: Make) -> None:
    repository = make()
    GATES["bad"] = LoadGate(broken=True, shut=False)
    with pytest.raises(LoadFailed):
        repository.load("app", adding(1.0, gate="bad"))
    repository.load("app", adding(1.0))
    assert states(repository) == {("p", 1, State.READY)}


def test_a_value_that_cannot_travel_is_a_failed_load(make: Make) -> None:
    maker = PlanMaker()
    deep = fields(x="list<list<f32[N]>>")
    maker.pipeline("deep", deep, deep, block([0], (), [0]))
    with pytest.raises(LoadFailed) as caught:
        make().load("app", maker.plan())
    assert isinstance(caught.value.cause, NoForm)


def test_two_apps_cannot_have_a_pipeline_of_one_name(make: Make) -> None:
    repository = make()
    repository.load("one", adding(1.0))
    with pytest.raises(LoadFailed, match="two plans hold a pipeline `p`"):
        repository.load("two", adding(2.0))
    assert states(repository) == {("p", 1, State.READY), ("two", 1, State.FAILED)}
    assert len(repository.engines) == 1


def test_what_is_being_loaded_is_told_and_what_is_served_is_ready(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", adding(1.0))
    gate = GATES["slow"] = LoadGate()
    loading = repository.load_later("app", adding(2.0, gate="slow"), 2)
    gate.entered()
    assert states(repository) == {("p", 1, State.READY), ("app", 2, State.LOADING)}
    assert service.ready
    assert service.model_ready("p")
    gate.open()
    done(loading)
    assert ask(service) == (2.0, "2")


def test_loads_of_different_apps_do_not_wait_for_each_other(make: Make) -> None:
    repository = make()
    gate = GATES["slow"] = LoadGate()
    slow = repository.load_later("slow", adding(1.0, name="s", gate="slow"))
    gate.entered()
    repository.load("quick", adding(1.0))
    assert not slow.done()
    gate.open()
    done(slow)


def test_unload_lets_requests_end_and_takes_no_more(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", adding(1.0))
    done(repository.unload("app"))
    assert states(repository) == {("app", 1, State.UNLOADED)}
    with pytest.raises(Fault, match="unknown model") as caught:
        ask(service)
    assert caught.value.code is Code.NOT_FOUND
    with pytest.raises(Unknown, match="`app` is not loaded"):
        repository.unload("app")
    repository.load("app", adding(1.0))
    assert ask(service) == (1.0, "1")


@pytest.mark.slow
def test_models_are_closed_and_their_memory_returns_after_unload(make: Make) -> None:
    before = weakref.WeakSet(sessions())
    repository = make()
    gate = GATES["open"] = LoadGate(shut=False)
    repository.load("app", adding(17.0, gate="open"))
    ask(serving(repository))
    mine = weakref.WeakSet(one for one in sessions() if one not in before)
    assert len(mine) == 1
    done(repository.unload("app"))
    gc.collect()
    assert len(mine) == 0
    assert gate.closed == 1


@pytest.mark.slow
def test_a_model_that_both_versions_have_is_in_memory_once(make: Make) -> None:
    before = weakref.WeakSet(sessions())
    repository = make()
    GATES["a"] = LoadGate(shut=False)
    GATES["b"] = LoadGate(shut=False)
    repository.load("app", adding(3.0, gate="a"))
    repository.load("app", adding(3.0, gate="b"))
    assert len([one for one in sessions() if one not in before]) == 1
    eventually_only(repository, 1)
    assert (GATES["a"].closed, GATES["b"].closed) == (1, 0)
    assert ask(serving(repository)) == (3.0, "1")


def test_counts_go_on_when_a_version_is_loaded_anew(make: Make) -> None:
    repository = make()
    service = serving(repository)
    for amount in (1.0, 2.0, 3.0):
        repository.load("app", adding(amount))
        ask(service)
        ask(service)
    eventually_only(repository, 1)
    totals = repository.totals()
    assert totals.pipelines["p", "1"].successes == 6
    assert totals.stages["add"].executions == 6
    done(repository.unload("app"))
    assert repository.totals().pipelines["p", "1"].successes == 6


def test_counts_are_kept_by_version(make: Make) -> None:
    repository = make(All())
    service = serving(repository)
    repository.load("app", adding(1.0))
    repository.load("app", adding(2.0), version=2)
    for version in ("1", "2", "2"):
        ask(service, version=version)
    pipelines = repository.totals().pipelines
    assert (pipelines["p", "1"].successes, pipelines["p", "2"].successes) == (1, 2)


def test_none_is_let_go_before_all_that_are_wanted_are_loaded(make: Make) -> None:
    repository = make(Latest(1))
    service = serving(repository)
    done(repository.update("app", {1: Candidate(lambda: adding(1.0))}))
    GATES["bad"] = LoadGate(broken=True, shut=False)
    both = {
        1: Candidate(lambda: adding(1.0)),
        2: Candidate(lambda: adding(2.0, gate="bad")),
    }
    with pytest.raises(LoadFailed, match="version 2"):
        repository.update("app", both).result(20)
    assert ask(service) == (1.0, "1")
    done(repository.update("app", both | {2: Candidate(lambda: adding(2.0))}))
    assert ask(service) == (2.0, "2")
    done(repository.update("app", {}))
    assert {state for *_, state in states(repository)} <= {State.DRAINING}


def test_a_plan_of_the_same_stamp_is_not_read_again(make: Make) -> None:
    repository = make()
    reads: list[None] = []

    def read() -> object:
        reads.append(None)
        return adding(1.0)

    for _ in range(2):
        done(repository.update("app", {1: Candidate(read, "a")}))  # type: ignore[arg-type] a plan
    assert len(reads) == 1


def test_a_sequence_ends_on_the_version_it_began_on(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", summing(0.0))
    assert ask(service, "sum", 1.0, sequence=InSequence(7, start=True)) == (1.0, "1")
    repository.load("app", summing(100.0), version=2)
    assert ("sum", 1, State.DRAINING) in states(repository)
    assert ask(service, "sum", 1.0, sequence=InSequence(8, start=True)) == (101.0, "2")
    assert ask(service, "sum", 1.0, sequence=InSequence(7)) == (2.0, "1")
    assert ask(service, "sum", 1.0, sequence=InSequence(8)) == (102.0, "2")
    assert ask(service, "sum", 1.0, sequence=InSequence(7, end=True)) == (3.0, "1")
    eventually_only(repository, 1)
    with pytest.raises(Fault, match="nothing is kept of sequence 7"):
        ask(service, "sum", 1.0, sequence=InSequence(7))


def test_a_sequence_that_begins_anew_does_so_on_the_new_version(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", summing(0.0))
    ask(service, "sum", 1.0, sequence=InSequence(7, start=True))
    repository.load("app", summing(100.0))
    assert ask(service, "sum", 1.0, sequence=InSequence(7, start=True)) == (101.0, "1")
    eventually_only(repository, 1)  # nothing lives on the old one any more
    assert ask(service, "sum", 1.0, sequence=InSequence(7)) == (102.0, "1")


def test_a_silent_sequence_does_not_hold_its_version(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", summing(0.0, idle=0.05))
    ask(service, "sum", 1.0, sequence=InSequence(7, start=True))
    repository.load("app", summing(100.0, idle=0.05))
    eventually_only(repository, 1)


def test_live_sequences_go_on_after_an_unload_and_no_others_begin(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", summing(0.0))
    ask(service, "sum", 1.0, sequence=InSequence(7, start=True))
    unloaded = repository.unload("app")
    assert ask(service, "sum", 1.0, sequence=InSequence(7)) == (2.0, "1")
    assert not service.model_ready("sum")
    with pytest.raises(Fault, match="unknown model"):
        ask(service, "sum", 1.0, sequence=InSequence(8, start=True))
    assert not unloaded.done()
    assert states(repository) == {("sum", 1, State.DRAINING)}
    ask(service, "sum", 1.0, sequence=InSequence(7, end=True))
    done(unloaded)
    with pytest.raises(Fault, match="unknown model"):
        ask(service, "sum", 1.0, sequence=InSequence(7))


def test_a_part_of_the_requests_goes_to_a_canary_and_a_sequence_stays(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.weights("app", {2: 0.25})
    repository.load("app", summing(0.0))
    repository.load("app", summing(100.0), version=2)
    assert service.versions("sum") == ("1", "2")
    answered: dict[str, int] = {"1": 0, "2": 0}
    for number in range(1, 401):
        _, version = ask(service, "sum", 1.0, sequence=InSequence(number, start=True))
        answered[version] += 1
        start = 100.0 if version == "2" else 0.0
        again = ask(service, "sum", 1.0, sequence=InSequence(number, end=True))
        assert again == (start + 2.0, version)
    assert 60 < answered["2"] < 140


def test_requests_without_an_id_are_dealt_out_evenly_and_those_with_one_stick(make: Make) -> None:
    repository = make(All())
    service = serving(repository)
    repository.load("app", adding(1.0))
    repository.load("app", adding(2.0), version=2)
    repository.weights("app", {1: 0.9, 2: 0.1})
    found = [ask(service)[1] for _ in range(200)]
    assert 18 <= found.count("2") <= 22
    for number in range(20):
        name = f"request-{number}"
        assert len({ask(service, id=name) for _ in range(3)}) == 1
    assert ask(service, version="1") == (1.0, "1")
    repository.weights("app", {})
    assert {ask(service)[1] for _ in range(20)} == {"2"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_no_request_fails_while_versions_come_and_go_at_random(make: Make, seed: int) -> None:
    repository = make(Latest(2))
    service = serving(repository)
    repository.load("app", adding(1.0))
    stop = threading.Event()
    answers = [0] * 8

    def traffic(index: int) -> None:
        while not stop.is_set():
            value, _ = ask(service, x=10.0, id=str(index))
            assert value in {11.0, 12.0, 13.0, 14.0}
            answers[index] += 1

    def change() -> None:
        random = Random(seed)
        try:
            for _ in range(25):
                amount, number = random.randint(1, 4), random.randint(1, 3)
                with suppress(LoadFailed):  # of a number that is not among the latest
                    repository.load("app", adding(float(amount)), number)
                if random.random() < 0.3:
                    repository.weights("app", {random.randint(1, 3): 0.5})
        finally:
            stop.set()

    run_all([change, *(lambda index=index: traffic(index) for index in range(8))])
    eventually_only(repository, len(service.versions("p")))
    counted = sum(one.successes for one in repository.totals().pipelines.values())
    assert counted == sum(answers)
    assert all(not one.failures for one in repository.totals().pipelines.values())


@pytest.mark.parametrize("seed", range(20))
def test_an_engine_that_is_drained_has_nobody_inside_however_they_race(seed: int) -> None:
    engine = Engine(adding(1.0), EngineConfig(workers=2))
    repository = Repository(engine.config)
    repository.adopt("app", engine)
    service = serving(repository)
    answered = [0] * 4
    enough = threading.Semaphore(0)

    def ask_for_ever(index: int) -> None:
        while True:
            ask(service)
            answered[index] += 1
            enough.release()

    def traffic(index: int) -> None:
        with pytest.raises(Fault, match="takes no more requests"):
            ask_for_ever(index)

    def drain() -> None:
        for _ in range(Random(seed).randint(1, 100)):
            enough.acquire()
        assert engine.drain(20)
        counts.append(engine.metrics.pipeline("p").successes)
        engine.close()

    counts: list[int] = []
    run_all([drain, *(lambda index=index: traffic(index) for index in range(4))])
    assert counts == [sum(answered)]


def test_no_sequence_begins_on_what_is_let_go_and_those_that_live_go_on() -> None:
    engine = Engine(summing(0.0), EngineConfig(workers=1))
    prepared = engine.pipeline("sum")

    def total(sequence: InSequence) -> object:
        return engine.run(prepared, {"x": 1.0}, sequence=sequence)["total"]

    assert total(InSequence(1, start=True)) == 1.0
    engine.sequences["sum"].retire()
    with pytest.raises(EngineClosed):
        total(InSequence(2, start=True))
    with pytest.raises(EngineClosed):
        engine.submit(Request("sum", {"x": np.float32(1.0)}, sequence=InSequence(2, start=True)))
    assert total(InSequence(1)) == 2.0
    assert total(InSequence(1, start=True)) == 1.0
    assert engine.metrics.pipeline("sum").failures == {}
    engine.close()


def test_no_sequence_is_torn_while_versions_come_and_go(make: Make) -> None:
    repository = make()
    service = serving(repository)
    repository.load("app", summing(0.0))
    stop = threading.Event()

    def traffic(index: int) -> None:
        for number in count(index * 10**6 + 1):
            if stop.is_set():
                return
            first, _ = ask(service, "sum", 1.0, sequence=InSequence(number, start=True))
            second, _ = ask(service, "sum", 1.0, sequence=InSequence(number))
            third, _ = ask(service, "sum", 1.0, sequence=InSequence(number, end=True))
            assert (second, third) == (first + 1.0, first + 2.0)

    def change() -> None:
        try:
            for amount in range(40):
                repository.load("app", summing(float(amount)))
        finally:
            stop.set()

    run_all([change, *(lambda index=index: traffic(index) for index in range(4))])
    eventually_only(repository, 1)
