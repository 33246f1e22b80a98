"""Requests and sequences while versions come and go."""

import threading
from contextlib import suppress
from itertools import count
from random import Random

import numpy as np
import pytest

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.repository.policy import All, Latest
from headrace.runtime.repository.repository import Repository
from headrace.runtime.repository.state import LoadFailed, State
from headrace.runtime.request import EngineClosed, Fault, InSequence, Request
from tests.runtime.repository.plans import adding, ask, serving, summing
from tests.runtime.repository.repositories import Make, done, eventually_only, states
from tests.runtime.repository.test_shared import run_all


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
