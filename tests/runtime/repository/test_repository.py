"""Loading, swapping, draining and letting go."""

import gc
import weakref

import pytest

from headrace.runtime.protocols.forms import NoForm
from headrace.runtime.repository.policy import All, Latest, Specific
from headrace.runtime.repository.state import LoadFailed, State, Unknown
from headrace.runtime.repository.version import Candidate
from headrace.runtime.request import Code, Fault
from tests.runtime.plans import PlanMaker, block, fields
from tests.runtime.repository.plans import GATES, LoadGate, adding, ask, serving
from tests.runtime.repository.repositories import Make, done, eventually_only, states
from tests.runtime.repository.test_shared import sessions


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
    assert totals.stages["app", "add"].executions == 6
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
