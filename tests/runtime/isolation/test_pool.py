"""Workers: they serve, fail, die, come back and end, and leave nothing behind."""

import logging
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from headrace.runtime.isolation.channel import WorkerError
from headrace.runtime.isolation.pool import Pool
from headrace.runtime.request import Code
from headrace.runtime.stage import StageError, StageGone
from tests.holding import held, named
from tests.runtime.wire.conftest import eventually

from .programs import SOURCE, pipe, pool, program, told

LARGE = 1 << 20


def ended(number: int, seconds: float = 10.0) -> bool:
    """Wait for the end of a process that need not be a child."""
    try:
        descriptor = os.pidfd_open(number)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def test_a_worker_is_another_process() -> None:
    with pool("number") as number:
        assert number(0) != os.getpid()
        assert number(0) == number(1)


@pytest.mark.slow
def test_workers_are_asked_in_turn() -> None:
    with pool("number", count=3) as number:
        assert len({number(0) for _ in range(3)}) == 3


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


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        ("value", "ValueError", "thirteen"),
        ("interrupt", "KeyboardInterrupt", "k"),
        ("exit", "SystemExit", "3"),
        ("long", "ValueError", "x" * 500 + " ..."),
    ],
)
@pytest.mark.slow
def test_what_a_function_raises_is_raised_and_the_worker_goes_on(
    how: str, kind: str, text: str
) -> None:
    with pool("fail") as fail:
        for _ in range(2):
            with pytest.raises(WorkerError) as caught:
                fail(how)
            assert (type(caught.value).__name__, str(caught.value)) == (kind, text)
            trace = str(caught.value.__cause__)
            assert '  File "m.py", line 26, in fail\n    raise {\n' in trace
            assert "worker.py" not in trace


@pytest.mark.parametrize(
    ("attribute", "argument", "settings", "code", "said"),
    [
        ("leave", 3, {}, Code.FAILED, "ended with status 3.*it does not exit"),
        ("crash", 0, {}, Code.FAILED, "was ended by SIGSEGV.*native library.*the log says"),
        ("held", "", {"timeout": 0.2}, Code.DEADLINE, r"longer than the 0\.2 s.*`timeout` more"),
    ],
)
@pytest.mark.slow
def test_who_is_served_by_a_worker_that_ends_is_told_how_and_the_next_is_served(
    tmp_path: Path,
    attribute: str,
    argument: object,
    settings: dict[str, Any],
    code: Code,
    said: str,
) -> None:
    source = SOURCE.replace("def held(pipe):", "def held(pipe):\n    if pipe == 1: return 1")
    if attribute == "held":
        argument = pipe(tmp_path)
        threading.Thread(target=told, args=(argument,)).start()
    with pool(attribute, source, **settings) as ends:
        with pytest.raises(StageGone, match=said) as caught:
            ends(argument)
        assert caught.value.code is code
        if attribute == "crash":
            assert 'File "m.py", line 24 in crash' in caught.value.detail
        if attribute == "held":
            eventually(lambda: ends.is_up)
            assert ends(1) == 1


@pytest.mark.slow
def test_a_worker_that_is_killed_fails_its_call_only_and_comes_back(tmp_path: Path) -> None:
    source = SOURCE + "\ndef either(path):\n    return held(path) if path else os.getpid()\n"
    with pool("either", source, count=2) as either:
        paths = [pipe(tmp_path, "a"), pipe(tmp_path, "b")]
        failed: dict[int, StageGone] = {}

        def ask(index: int) -> None:
            try:
                either(paths[index])
            except StageGone as error:
                failed[index] = error

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        numbers = [int(told(path)) for path in paths]
        os.kill(numbers[0], signal.SIGKILL)
        threads[0].join(5)
        assert "was ended by SIGKILL" in failed[0].message
        assert 1 not in failed
        eventually(lambda: either("") not in numbers)  # the second is still at work
        os.kill(numbers[1], signal.SIGKILL)
        threads[1].join(5)
        assert all(map(ended, numbers))


@pytest.mark.slow
def test_a_worker_that_dies_while_nobody_asks_it_fails_no_call() -> None:
    with pool("number") as number:
        before: Any = number(0)  # Any: a number
        os.kill(before, signal.SIGKILL)
        assert ended(before)
        assert number(0) != before


@pytest.mark.slow
def test_what_takes_more_memory_than_it_may_fails_and_says_what_it_has() -> None:
    with pool("grow", memory=1 << 30) as grow:
        assert grow(1000) == 1000
        with pytest.raises(WorkerError, match="gives it 1073741824 bytes") as caught:
            grow(2 << 30)
        assert "MemoryError" in type(caught.value).__name__
        assert grow(1000) == 1000


@pytest.mark.slow
def test_calls_fail_at_once_while_a_worker_is_not_expected_soon(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    source = f"""
import os
if os.path.exists({str(gate)!r}):
    raise OSError("the gate is there")
def leave(status):
    return 1 if status < 0 else os._exit(status)
"""
    with pool("leave", source) as leave:
        gate.touch()
        with pytest.raises(StageGone, match="status 1"):
            leave(1)
        for _ in range(100):  # it is waited for while it is due soon, and then no more
            start = perf_counter()
            with pytest.raises(StageGone) as caught:
                leave(-1)
            assert caught.value.code is Code.UNAVAILABLE
            if perf_counter() - start < 0.1:
                break
        assert not leave.is_up
        said = r"is down and is started again; try again in \d\.\d s.*the gate is there"
        with pytest.raises(StageGone, match=said):
            leave(-1)


@pytest.mark.parametrize(
    ("source", "made", "said"),
    [
        ("raise OSError('no weights')", False, "m.py cannot be loaded: OSError: no weights"),
        ("def other(): ...", False, "m.py defines no function `f`"),
        ("f = 3", True, "m.py defines no class `f`"),
        ("class f:\n  def __init__(self): 1/0", True, "`f` cannot be made: ZeroDivisionError"),
        ("class f: ...", True, "`f` has no `__call__`"),
        ("import os; os._exit(4)", False, "ended with status 4 while it was loaded: a stage"),
        ("import ctypes; ctypes.string_at(0)", False, "by SIGSEGV while it was loaded: a native"),
        ("def f(", False, "SyntaxError"),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_loaded_is_refused_with_nothing_left(
    source: str, made: bool, said: str
) -> None:
    before = held()
    with pytest.raises(StageError, match=said):
        Pool(program("f", source, made=made), 2)
    assert not held() - before


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


@pytest.mark.slow
def test_a_closed_pool_leaves_no_process_no_thread_no_memory() -> None:
    before = held()
    with pool("number", count=3) as number:
        workers = {number(0)}
        kept = number
    assert all(ended(one, 0) for one in workers)  # type: ignore[arg-type] numbers
    assert not held() - before
    with pytest.raises(StageGone, match="the engine was closed"):
        kept(0)
    kept.close()  # once more


@pytest.mark.slow
def test_a_worker_that_does_not_end_is_killed_after_the_grace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = pipe(tmp_path)
    opened = Pool(program("held"), 1)
    failed: list[StageGone] = []

    def ask() -> None:
        try:
            opened(path)
        except StageGone as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    number = int(told(path))
    opened.close(0.05)
    thread.join(5)
    assert "SIGKILL" in failed[0].message
    assert ended(number, 0)
    assert f"worker {number} is killed" in caplog.text


@pytest.mark.slow
def test_who_is_interrupted_leaves_no_worker_out_of_step(tmp_path: Path) -> None:
    path = pipe(tmp_path)
    source = SOURCE + "\ndef either(path):\n    return held(path) if path else os.getpid()\n"
    with pool("either", source) as either:
        main, heard = threading.main_thread().ident, threading.Event()
        assert main is not None

        def hear(*_: object) -> None:
            if not heard.is_set():
                heard.set()
                raise KeyboardInterrupt

        def interrupt() -> None:
            told(path)
            while not heard.wait(0.05):  # one that comes just before a wait is heard after it
                signal.pthread_kill(main, signal.SIGINT)

        before = signal.signal(signal.SIGINT, hear)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            either(path)
        thread.join()
        signal.signal(signal.SIGINT, before)
        eventually(lambda: either.is_up)
        assert isinstance(either(""), int)


@pytest.mark.slow
def test_a_fork_of_the_engine_s_process_leaves_its_workers_alone() -> None:
    with pool("number") as number:
        worker = number(0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                number(0)
            except StageGone as error:
                number.close()
                status = 0 if "forked from" in error.message else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert number(0) == worker


@pytest.mark.slow
def test_workers_end_with_an_engine_that_is_killed(tmp_path: Path) -> None:
    path = pipe(tmp_path)
    script = f"""
import sys
sys.path[:] = {sys.path}
from headrace.runtime.isolation.pool import Pool
from headrace.runtime.isolation.program import Program
from hashlib import sha256
source = {SOURCE!r}.encode()
Pool(Program("s", source, sha256(source).hexdigest(), "m.py", "held"), 1)({path!r})
"""
    engine = subprocess.Popen([sys.executable, "-c", script])
    worker = int(told(path))  # it runs, and never returns
    engine.kill()
    engine.wait()
    assert ended(worker)


@pytest.mark.slow
def test_what_a_worker_has_started_ends_with_it(tmp_path: Path) -> None:
    path = pipe(tmp_path)
    source = """
import os, subprocess
def f(path):
    other = subprocess.Popen(["sleep", "60"])
    with open(path, "w") as file:
        file.write(str(other.pid))
    os._exit(1)
"""
    with pool("f", source) as f:
        found: list[str] = []
        reader = threading.Thread(target=lambda: found.append(told(path)))
        reader.start()
        with pytest.raises(StageGone):
            f(path)
        reader.join()
        assert ended(int(found[0]))


@pytest.mark.slow
def test_a_worker_that_is_started_again_rehearses_what_the_first_has() -> None:
    source = (
        "import os\n"
        "class Calls:\n"
        "    count = 0\n"
        "    def __call__(self, _):\n"
        "        self.count += 1\n"
        "        return [self.count, os.getpid()]\n"
    )
    with pool("Calls", source, made=True) as calls:
        calls.rehearses = True
        told = [calls("") for _ in range(3)][-1]
        calls.rehearses = False
        assert isinstance(told, list)
        (_, number) = told
        os.kill(number, signal.SIGKILL)
        assert ended(number)
        assert asked_again(calls)[0] == 4


@pytest.mark.slow
def test_a_rehearsal_that_fails_now_is_told_and_one_that_kills_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flag = tmp_path / "flag"
    source = (
        "import os\n"
        "def act(path):\n"
        "    if not os.path.exists(path): return os.getpid()\n"
        "    if open(path).read() == 'die': os._exit(3)\n"
        "    raise ValueError('not now')\n"
    )
    with pool("act", source) as act:
        act.rehearses = True
        number = act(str(flag))
        act.rehearses = False
        assert isinstance(number, int)
        flag.write_text("raise")
        os.kill(number, signal.SIGKILL)
        assert ended(number)
        with pytest.raises(WorkerError, match="not now"):  # it serves all the same
            asked_again(act, str(flag))
        assert "its run at loading fails now" in caplog.text
        flag.unlink()
        number = act(str(flag))
        assert isinstance(number, int)
        flag.write_text("die")
        os.kill(number, signal.SIGKILL)
        assert ended(number)
        with pytest.raises(StageGone):
            asked_again(act, str(flag))
        flag.unlink()
        eventually(lambda: act.is_up, 30.0)
        assert isinstance(act(str(flag)), int)


def asked_again(asked: Pool, argument: str = "") -> Any:  # Any: whatever the function gives
    """Return what a worker that comes back gives, once it is known to have ended."""
    while True:
        try:
            return asked(argument)
        except StageGone as gone:
            if "SIGKILL" not in gone.message:
                raise
