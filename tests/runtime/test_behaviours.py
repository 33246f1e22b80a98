"""Behaviours that other servers are known to get wrong, each by its name."""

import os
import select
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import httpx
import pytest

from headrace.compiler.plan import Isolation, PythonSegment, Service
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, Request
from headrace.runtime.server import serve
from headrace.runtime.server_config import ServerConfig
from tests.holding import descriptors, named
from tests.runtime.plans import PlanMaker, block, call, fields
from tests.runtime.wire.conftest import eventually

SOURCE = """
import os, threading

if os.path.exists({gate!r}):
    open({gate!r}).read()  # whoever opens it to write lets this worker serve

def work(how):
    if how:
        with open(how, "w") as file:
            file.write(str(os.getpid()))
        threading.Event().wait()
    return str(os.getpid())
"""


def ask(how: str = "") -> Request:
    return Request("work", {"how": how})


def pipe(folder: Path, name: str) -> str:
    os.mkfifo(folder / name)
    return str(folder / name)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine whose stage `work` has a worker, which is started again when the gate is opened."""
    maker = PlanMaker()
    source = SOURCE.format(gate=str(tmp_path / "gate"))
    given, found = fields(how="string"), fields(number="string")
    stage = maker.python("work", source, given, found)
    segment = maker.segments[stage]
    assert isinstance(segment, PythonSegment)
    maker.segments[stage] = replace(segment, service=Service(isolation=Isolation()))
    maker.pipeline("work", given, found, block([0], [call(stage, [0], [1])], [1]))
    maker.pipeline("other", given, given, block([0], (), [0]))
    engine = Engine(maker.plan(), EngineConfig(workers=4))
    yield engine
    engine.close()


@pytest.mark.slow
def test_b27_dead_worker(engine: Engine, tmp_path: Path) -> None:
    """kill -9 the worker during a run: in-flight requests fail within 1 s; readiness is false until
    the restart; no hang, no zombie; and who asks for something else notices nothing."""
    started = pipe(tmp_path, "started")
    ports = ServerConfig(http_port=0, grpc_port=None, metrics_port=None)
    with serve([engine], ports) as server, httpx.Client() as client:
        health = f"http://{server.addresses.http}/v2/health"
        assert client.get(f"{health}/ready").status_code == 200

        running = engine.submit(ask(started))
        worker = int(Path(started).read_text())  # it runs
        gate = pipe(tmp_path, "gate")
        os.kill(worker, signal.SIGKILL)
        fault = running.exception(20)
        assert isinstance(fault, Fault)
        assert (fault.code, fault.stage) == (Code.FAILED, "work")
        assert "its worker process was ended by SIGKILL while it ran this" in fault.message
        assert str(fault.place) == "toy.pipe:3:5"

        assert engine.unready == ("the workers of stage `work` are down",)
        assert client.get(f"{health}/ready").status_code == 503
        assert client.get(f"{health}/live").status_code == 200
        assert not Path(f"/proc/{worker}").exists()  # reaped
        assert engine.call(Request("other", {"how": "x"})).outputs == {"how": "x"}

        Path(gate).write_text("serve")
        eventually(lambda: not engine.unready)
        assert int(str(engine.call(ask()).outputs["number"])) != worker
        assert engine.unready == ()
        assert client.get(f"{health}/ready").status_code == 200


@pytest.mark.slow
def test_b27_requests_are_refused_at_once_while_no_worker_is_expected(
    engine: Engine, tmp_path: Path
) -> None:
    """Restarts are further and further apart, and nobody waits for one that is not soon."""
    started, gate = pipe(tmp_path, "started"), tmp_path / "gate"
    running = engine.submit(ask(started))
    worker = int(Path(started).read_text())
    gate.mkdir()  # which cannot be read, so that no worker starts
    os.kill(worker, signal.SIGKILL)
    assert isinstance(running.exception(20), Fault)
    while True:  # the first of them wait for a restart that is due soon
        begun = perf_counter()
        with pytest.raises(Fault, match=r"try again in \d+\.\d s") as caught:
            engine.call(ask())
        took = perf_counter() - begun
        assert caught.value.code is Code.UNAVAILABLE
        assert caught.value.retry_after
        if took < 0.1 and "IsADirectoryError" in caught.value.message:  # why it did not start
            break
    assert engine.unready


@pytest.mark.slow
def test_b27_a_worker_that_died_leaves_nothing_behind(engine: Engine, tmp_path: Path) -> None:
    """Not a process, not a descriptor, and never a name in /dev/shm, whatever it has died of."""
    engine.call(ask())
    started = pipe(tmp_path, "started")
    before, names = descriptors(), named()
    workers: list[int] = []
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        running = engine.submit(ask(started))
        workers.append(int(Path(started).read_text()))
        os.kill(workers[-1], number)
        assert isinstance(running.exception(20), Fault)
        eventually(lambda: not engine.unready)
        engine.call(ask())  # a new one serves
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.pidfd_open(worker)
    assert not named() - names
    assert len(descriptors()) <= len(before)  # others than before, as the worker is another
    last = int(str(engine.call(ask()).outputs["number"]))
    descriptor = os.pidfd_open(last)
    engine.close()
    assert select.select([descriptor], [], [], 0)[0]  # it has ended
    os.close(descriptor)
