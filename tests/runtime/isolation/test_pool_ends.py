"""Workers and pools that end: nothing is left behind, and a worker that comes back is warmed up."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.runtime.isolation.channel import WorkerError
from headrace.runtime.isolation.pool import Pool
from headrace.runtime.stage import StageGone
from tests.holding import held
from tests.runtime.wire.conftest import eventually

from .programs import SOURCE, ended, pipe, pool, program, told


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


ACT = """
import os
def act(path):
    if not os.path.exists(path): return os.getpid()
    if open(path).read() == "die": os._exit(3)
    raise ValueError("not now")
"""


@pytest.mark.slow
def test_a_rehearsal_that_fails_now_is_told_and_its_worker_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flag = tmp_path / "flag"
    with pool("act", ACT) as act:
        number = rehearsed(act, str(flag))
        flag.write_text("raise")
        os.kill(number, signal.SIGKILL)
        assert ended(number)
        with pytest.raises(WorkerError, match="not now"):
            asked_again(act, str(flag))
        assert "its run at loading fails now" in caplog.text
        flag.unlink()
        assert isinstance(act(str(flag)), int)


@pytest.mark.slow
def test_a_worker_that_its_rehearsal_kills_is_started_until_it_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flag = tmp_path / "flag"
    with pool("act", ACT, patience=0.0) as act:
        number = rehearsed(act, str(flag))
        flag.write_text("die")
        os.kill(number, signal.SIGKILL)
        assert ended(number)
        eventually(lambda: caplog.text.count("its run at loading fails now") >= 2)
        assert not act.is_up
        with pytest.raises(StageGone, match="its worker process is down"):
            asked_again(act, str(flag))
        flag.unlink()
        eventually(lambda: act.is_up)
        assert isinstance(act(str(flag)), int)


def rehearsed(act: Pool, flag: str) -> int:
    """Return the number of the worker, which does the same when it is started again."""
    act.rehearses = True
    number = act(flag)
    act.rehearses = False
    assert isinstance(number, int)
    return number


def asked_again(asked: Pool, argument: str = "") -> Any:  # Any: whatever the function gives
    """Return what a worker that comes back gives, once it is known to have ended."""
    while True:
        try:
            return asked(argument)
        except StageGone as gone:
            if "SIGKILL" not in gone.message:
                raise
