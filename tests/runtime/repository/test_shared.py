"""What several plans use together is made once and closed by the last."""

import gc
import threading
import weakref
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.onnx_session import OnnxSession
from headrace.runtime.request import Request
from headrace.runtime.shared import Shared
from tests.runtime.repository.plans import adding


class Thing:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_the_last_who_gives_it_back_closes_it() -> None:
    shared = Shared()
    thing = shared.take("a", Thing)
    assert shared.take("a", Thing) is thing
    shared.give_back("a", thing)
    assert thing.closed == 0
    shared.give_back("a", thing)
    assert thing.closed == 1
    assert shared.take("a", Thing) is not thing


def test_what_is_forgotten_stays_with_who_has_it_and_is_made_anew_for_others() -> None:
    shared = Shared()
    old = shared.take("a", Thing)
    assert shared.take("a", Thing) is old
    shared.forget("a")
    shared.forget("b")  # which nobody has
    new = shared.take("a", Thing)
    assert new is not old
    shared.give_back("a", old)
    shared.give_back("a", new)
    assert (old.closed, new.closed) == (0, 1)
    shared.give_back("a", old)
    assert (old.closed, len(shared)) == (1, 0)


def test_what_cannot_be_made_is_tried_again_by_the_next() -> None:
    shared = Shared()

    def fail() -> Thing:
        raise OSError("no memory")

    with pytest.raises(OSError, match="no memory"):
        shared.take("a", fail)
    assert len(shared) == 0
    assert shared.take("a", Thing).closed == 0


def test_who_comes_while_it_is_made_waits_for_it_and_other_keys_do_not() -> None:
    shared, making, go = Shared(), threading.Event(), threading.Event()

    def slowly() -> Thing:
        making.set()
        assert go.wait(20)
        return Thing()

    found: list[Thing] = []
    threads = [
        threading.Thread(target=lambda: found.append(shared.take("a", slowly))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    assert making.wait(20)
    shared.take("b", Thing)
    go.set()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


@pytest.mark.parametrize("seed", range(3))
def test_counts_hold_under_races(seed: int) -> None:
    shared, made = Shared(), list[Thing]()

    def make() -> Thing:
        made.append(Thing())
        return made[-1]

    def work(random: Random) -> None:
        for _ in range(500):
            key = random.choice("abc")
            thing = shared.take(key, make)
            if random.random() < 0.1:
                shared.forget(key)
            assert thing.closed == 0
            shared.give_back(key, thing)

    run_all([lambda i=i: work(Random(seed * 100 + i)) for i in range(8)])
    assert len(shared) == 0
    assert all(thing.closed == 1 for thing in made)


def run_all(works: list[Callable[[], None]]) -> None:
    """Run functions in threads; what one raises is raised."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.slow
def test_engines_with_the_same_model_have_one_session() -> None:
    before = weakref.WeakSet(sessions())
    shared, config = Shared(), EngineConfig(workers=1)
    engines = [Engine(adding(1.0, name=name), config, shared=shared) for name in ("p", "q")]
    other = Engine(adding(2.0), config, shared=shared)
    opened = weakref.WeakSet(one for one in sessions() if one not in before)
    assert len(opened) == len(shared) == 2
    engines[0].close()
    assert shows(engines[1], "q") == 1.0
    engines[1].close()
    other.close()
    assert len(shared) == 0
    del engines, other
    gc.collect()
    assert len(opened) == 0


def sessions() -> list[OnnxSession]:
    """Return all that are in memory."""
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is OnnxSession]


def shows(engine: Engine, name: str) -> float:
    outputs = engine.call(Request(name, {"x": np.zeros(1, np.float32)})).outputs
    return float(np.ravel(np.asarray(outputs["y"]))[0])
