"""Workers: they serve many calls at once, and leave values as they were."""

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.runtime.isolation.channel import NotAsked, WorkerError
from headrace.runtime.isolation.function import FunctionProcess
from headrace.runtime.isolation.pool import Pool
from tests.holding import held, named

from .programs import pipe, pool, program, told

LARGE = 1 << 20


def test_a_worker_is_another_process() -> None:
    with pool("number") as number:
        assert number(0) != os.getpid()
        assert number(0) == number(1)


@pytest.mark.slow
def test_the_worker_that_was_free_last_is_asked_and_all_of_them_in_turn_while_they_rehearse() -> (
    None
):
    with pool("number", count=3) as number:
        assert len({number(0) for _ in range(3)}) == 1
        number.rehearses = True
        assert len({number(0) for _ in range(3)}) == 3


@pytest.mark.slow
def test_a_worker_that_cannot_be_asked_is_asked_once_and_another_answers() -> None:
    deaf: list[FunctionProcess] = []

    class Worker(FunctionProcess):
        def call(self, arguments: Sequence[object]) -> object:
            assert self not in deaf
            if not deaf:
                deaf.append(self)
                raise NotAsked
            return super().call(arguments)

    number = Pool(program("number"), 2, make=lambda _: Worker(program("number")))
    try:
        assert number(0) != deaf[0].number
        assert deaf[0].killed
    finally:
        number.close()


@pytest.mark.slow
def test_several_run_at_once(tmp_path: Path) -> None:
    meet = pipe(tmp_path)
    source = "def meet(mode, path):\n    with open(path, mode) as file:\n        return mode"
    with pool("meet", source, count=2) as both:
        found: list[object] = []

        def ask(mode: str) -> None:
            found.append(both(mode, meet))

        threads = [
            threading.Thread(target=ask, args=(mode,))
            for mode in ("r", "w")  # each of which waits for the other
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(map(str, found)) == ["r", "w"]


@pytest.mark.slow
def test_calls_wait_for_a_worker_that_is_free_and_get_their_own_answers() -> None:
    with pool("same", count=2) as same:
        found: dict[int, Any] = {}  # Any: an array

        def ask(number: int) -> None:
            for _ in range(20):
                found[number] = same(np.full(30_000, number, np.float32))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all((found[i] == i).all() for i in range(6))


@pytest.mark.slow
def test_large_tensors_come_without_a_copy_and_in_a_steady_state_nothing_is_made() -> None:
    x = np.arange(LARGE, dtype=np.float32)
    with pool("same") as same:
        y: Any = None  # Any: an array, as x
        for _ in range(3):  # two answers are alive at a time
            y = same(x)
        before, names = held(), named()
        for _ in range(20):
            y = same(x)
        assert not held() - before
        assert not named() - names
        assert not y.flags.owndata
        assert np.array_equal(y, x)
    assert np.array_equal(y, x)  # the worker has gone, and this stays


@pytest.mark.slow
def test_a_quarter_of_a_gigabyte_goes_there_and_back() -> None:
    x = np.zeros(1 << 28, np.uint8)
    x[::4096] = 7
    with pool("same") as same:
        y: Any = same(x)
        assert y.nbytes == x.nbytes
        assert np.array_equal(y[::4096], x[::4096])


@pytest.mark.slow
def test_answers_that_a_caller_keeps_stay_as_they_were() -> None:
    with pool("same") as same:
        kept: list[Any] = [same(np.full(LARGE, i, np.uint8)) for i in range(12)]
        assert [int(one[0]) for one in kept] == list(range(12))
        assert all((one == one[0]).all() for one in kept)
        assert kept[0].flags.writeable


@pytest.mark.slow
def test_what_a_function_keeps_stays_as_it_was() -> None:
    with pool("previous") as previous:
        for i in range(8):
            found: Any = previous(np.full(LARGE, i, np.uint8))
            assert (found == max(0, i - 1)).all()


@pytest.mark.slow
def test_a_function_cannot_write_to_what_it_is_given() -> None:
    with pool("write") as write:
        for x in (np.ones(3), np.ones(LARGE)):
            with pytest.raises(WorkerError, match="read-only"):
                write(x)
            assert (x == 1).all()


@pytest.mark.slow
def test_a_worker_keeps_to_its_cores_and_threads() -> None:
    core = min(os.sched_getaffinity(0))
    source = (
        "import os\ndef f(_): return sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS']"
    )
    with pool("f", source, cpus=(core,), threads=3) as f:
        assert f(0) == ([core], "3")


@pytest.mark.slow
def test_an_object_is_made_once_and_closed_at_the_end(tmp_path: Path) -> None:
    path = pipe(tmp_path)
    with pool("Counts", made=True, device="cpu") as counts:
        assert [counts(None) for _ in range(3)] == [[i, "cpu"] for i in (1, 2, 3)]
        counts(path)
        found: list[str] = []
        reader = threading.Thread(target=lambda: found.append(told(path)))
        reader.start()
    reader.join()
    assert found == ["closed"]


@pytest.mark.slow
def test_what_is_printed_goes_to_the_log_with_the_stage_s_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO), pool("tell") as tell:
        tell("one\x1b[31m")
        tell("two\n\nERROR forged")
    shown = [(one.levelname, one.getMessage().partition(": ")[2]) for one in caplog.records]
    assert ("INFO", "one\\x1b[31m") in shown
    assert ("WARNING", "two") in shown
    assert all(one.getMessage().startswith("stage `stage`, worker ") for one in caplog.records)


@pytest.mark.slow
def test_a_flood_of_output_holds_up_no_call(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL), pool("tell") as tell:
        assert tell("line\n" * 200_000) is None


@pytest.mark.slow
def test_a_worker_that_prints_while_it_is_loaded_is_loaded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = "print('x' * 1000000)\ndef f(x): return x"
    with caplog.at_level(logging.CRITICAL), pool("f", source) as f:
        assert f(1) == 1
