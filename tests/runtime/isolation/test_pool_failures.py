"""Workers whose functions fail, die or cannot be loaded, and those that come back."""

import os
import signal
import threading
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from headrace.runtime.isolation.channel import WorkerError
from headrace.runtime.isolation.pool import Pool
from headrace.runtime.isolation.supervisor import PATIENCE
from headrace.runtime.request import Code
from headrace.runtime.stage import StageError, StageGone
from tests.holding import held
from tests.runtime.wire.conftest import eventually

from .programs import SOURCE, ended, pipe, pool, program, told


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
    with pool("leave", source, patience=PATIENCE) as leave:
        gate.touch()
        with pytest.raises(StageGone, match="status 1"):
            leave(1)
        for _ in range(100):  # it is waited for while it is due soon, and then no more
            start = perf_counter()
            with pytest.raises(StageGone) as caught:
                leave(-1)
            assert caught.value.code is Code.UNAVAILABLE
            tried = "the gate is there" in caught.value.message  # a worker, since it has ended
            if tried and perf_counter() - start < 0.1:
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
