"""B25 and B26: what is served changes, and ends, without a failed request."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import pytest

from headrace.client import Client
from headrace.compiler import compile_source
from headrace.compiler.plan import Plan
from headrace.dsl.source import Source
from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.repository import Repository
from headrace.runtime.repository.state import LoadFailed, State
from headrace.runtime.request import Code, Fault, Request
from headrace.runtime.server import serve
from headrace.runtime.server_config import Carrier
from headrace.runtime.service import Service
from headrace.runtime.streams import Stream
from tests.runtime.repository.plans import GATES, LoadGate, adding, ask, serving, stopping
from tests.runtime.wire.conftest import Gate, eventually, free_ports, gates

__all__ = ["gates"]

Ask = Callable[[float], float]


class Traffic:
    """Threads that ask all the time; what fails is kept, and whether all was ready meanwhile."""

    def __init__(self, asks: list[Ask], ready: Callable[[], bool]) -> None:
        self.failures: list[BaseException] = []
        self.answers: list[float] = []
        self._ready = ready
        self._changed, self._stop = threading.Condition(), False
        self._threads = [threading.Thread(target=self._run, args=(one,)) for one in asks]
        for thread in self._threads:
            thread.start()

    def more(self, count: int = 100) -> None:
        """Return when so many more answers have come."""
        with self._changed:
            enough = len(self.answers) + count
            assert self._changed.wait_for(
                lambda: len(self.answers) >= enough or bool(self.failures), 20
            )
            assert not self.failures

    def stop(self) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join(20)
        assert not self.failures

    def _run(self, asks: Ask) -> None:
        try:
            while not self._stop:
                answer = asks(10.0)
                assert self._ready()
                with self._changed:
                    self.answers.append(answer - 10.0)
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self.failures.append(error)
                self._changed.notify_all()


@pytest.fixture
def repository() -> Iterator[Repository]:
    made = Repository(EngineConfig(workers=2))
    yield made
    for gate in GATES.values():
        gate.open()
    GATES.clear()
    made.close()


@contextmanager
def traffic(
    repository: Repository, name: str, wire: bool
) -> Generator[tuple[Traffic, Service], None, None]:
    """Eight callers, in the process or over HTTP and gRPC."""
    service = serving(repository)
    if not wire:
        asks: list[Ask] = [lambda x: ask(service, name, x)[0]] * 8
        running = Traffic(asks, lambda: service.ready and service.model_ready(name))
        yield running, service
        running.stop()
        return
    with serve(repository, free_ports(Carrier.AUTO)) as server:
        clients = [
            Client(f"{kind}://{address}")
            for kind, address in (
                ("http", server.addresses.http),
                ("grpc", server.addresses.grpc),
            )
            for _ in range(4)
        ]
        ready = f"http://{server.addresses.http}/v2/models/{name}/ready"
        with httpx.Client() as http:
            running = Traffic(
                [lambda x, one=one: float(one[name](x=[x]).y[0]) for one in clients],
                lambda: http.get(ready).status_code == 200,
            )
            yield running, service
            running.stop()
        for client in clients:
            client.close()


wires = pytest.mark.parametrize("wire", [False, True], ids=["embedded", "over the wire"])


@wires
@pytest.mark.slow
def test_b25_a_slow_load_and_one_that_fails_let_no_request_fail(
    repository: Repository, wire: bool
) -> None:
    repository.load("app", adding(1.0))
    with traffic(repository, "p", wire) as (running, service):
        running.more()
        slow = GATES["slow"] = LoadGate()
        loading = repository.load_later("app", adding(2.0, gate="slow"))
        slow.entered()
        running.more()  # while it loads the one before answers
        assert set(running.answers) == {1.0}
        slow.open()
        loading.result(20)
        running.more()
        assert running.answers[-1] == 2.0

        GATES["bad"] = LoadGate(broken=True)
        failing = repository.load_later("app", adding(3.0, gate="bad"))
        GATES["bad"].entered()
        running.more()
        GATES["bad"].open()
        with pytest.raises(LoadFailed, match="no such weights"):
            failing.result(20)
        running.more()
        assert running.answers[-1] == 2.0
        assert service.ready
    assert set(running.answers) == {1.0, 2.0}


NESTED = """\
pipeline child(x: f32[N]) -> (y: f32[N]) { return y = x + AMOUNT }

pipeline top(x: f32[N]) -> (y: f32[N]) { return y = child(x) + 0.0 }
"""


def nested(amount: float) -> Plan:
    return compile_source(Source("nested.pipe", NESTED.replace("AMOUNT", str(amount))))


@wires
@pytest.mark.slow
def test_b25_the_same_when_only_a_child_is_updated(repository: Repository, wire: bool) -> None:
    repository.load("app", nested(1.0))
    with traffic(repository, "top", wire) as (running, _):
        running.more()
        for amount in (2.0, 3.0, 4.0):
            repository.load("app", nested(amount))
            running.more()
            assert running.answers[-1] == amount


def test_b25_the_same_when_only_a_model_of_many_is_updated(repository: Repository) -> None:
    GATES["child"] = LoadGate(shut=False)
    repository.load("app", adding(1.0, gate="child"))
    with traffic(repository, "p", wire=False) as (running, _):
        running.more()
        GATES["next"] = LoadGate()
        loading = repository.load_later("app", adding(1.0, gate="next"))
        GATES["next"].entered()
        running.more()
        GATES["next"].open()
        loading.result(20)
        running.more()
    assert set(running.answers) == {1.0}


def test_b25_what_is_in_flight_ends_on_the_version_it_began_on(repository: Repository) -> None:
    service = serving(repository)
    gate = GATES["run"] = LoadGate()
    repository.load("app", stopping("run"))
    model = service.find("p")
    _, held = service.begin(model, Request("p", {"x": np.full(1, 5.0, np.float32)}))
    assert isinstance(held, Future)
    gate.entered()
    (old,) = repository.engines
    repository.load("app", adding(1.0))
    assert ask(service, x=5.0) == (6.0, "1")
    assert {entry.state for entry in repository.index()} == {State.READY, State.DRAINING}
    assert old in repository.engines
    gate.open()
    assert held.result(20).outputs["y"] == [5.0]
    for thread in threading.enumerate():
        if thread.name.startswith("headrace-drain"):
            thread.join(20)
    assert old not in repository.engines


COUNT = """\
pipeline count(n: i64) -> stream (i: i64) {
    _ = loop (at: i64 = n + START) max 60 {
        emit i = at
        next at = at + 1
    }
}
"""


def test_b25_an_open_stream_ends_on_the_version_it_began_on(repository: Repository) -> None:
    def plan(start: int) -> Plan:
        return compile_source(Source("count.pipe", COUNT.replace("START", str(start))))

    service = serving(repository)
    repository.load("app", plan(0))
    first = opened(service)
    got = take(first, 1)
    repository.load("app", plan(50))
    assert take(opened(service), 1000)[0] == b"50"
    got += take(first, 1000)
    assert got == [b"%d" % number for number in range(60)]


def opened(service: Service) -> Stream[bytes]:
    arrived = threading.Event()
    model = service.find("count")
    stream = service.open(
        model,
        Request("count", {"n": np.int64(0)}),
        lambda _, outputs: str(outputs["i"]).encode(),
        arrived.set,
    )
    ARRIVED[stream] = arrived
    return stream


ARRIVED: dict[Stream[bytes], threading.Event] = {}


def take(stream: Stream[bytes], most: int) -> list[bytes]:
    """Read responses until there are so many, or no more."""
    found: list[bytes] = []
    while len(found) < most and not stream.over:
        got = stream.take()
        found += got
        if not got:
            ARRIVED[stream].wait(20)
            ARRIVED[stream].clear()
    return found


PIPE = """\
fn wait(path: string) -> (content: bytes) = python "stages.py:wait"

pipeline inner(path: string) -> (content: bytes) { return content = wait(path) }

pipeline outer(path: string) -> (content: bytes) { return content = inner(path) }

pipeline quick(x: f32) -> (x: f32) { return x = x }
"""
STAGES = """
from pathlib import Path

def wait(path: str) -> bytes:
    return Path(path).read_bytes()
"""


@contextmanager
def served(folder: Path, *options: str) -> Generator[tuple["subprocess.Popen[str]", str], None]:
    """`headrace run` in a process of its own, and its address for HTTP."""
    (folder / "app.pipe").write_text(PIPE)
    (folder / "stages.py").write_text(STAGES)
    ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli", "run", str(folder), *ports, *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        while not (line := process.stdout.readline()).startswith("http"):
            assert line
        yield process, line.split()[1].partition("/v2")[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def held(http: str, gate: Gate) -> "Future[list[bytes]]":
    """Ask for what waits at a gate, in a thread, and return once it does."""
    answer: Future[list[bytes]] = Future()

    def call() -> None:
        try:
            with Client(http) as client:
                answer.set_result([client.outer(path=str(gate.path)).content])
        except Fault as fault:
            answer.set_exception(fault)

    threading.Thread(target=call, daemon=True).start()
    gate.entered()
    return answer


@pytest.mark.slow
def test_b26_a_signal_lets_nested_calls_end_and_takes_no_new_ones(
    tmp_path: Path, gates: tuple[Gate, Gate]
) -> None:
    with served(tmp_path) as (process, http):
        running = held(http, gates[0])
        assert httpx.get(f"{http}/v2/health/ready").status_code == 200
        process.send_signal(signal.SIGTERM)
        eventually(lambda: httpx.get(f"{http}/v2/health/ready").status_code == 503)
        assert httpx.get(f"{http}/v2/health/live").status_code == 200
        with Client(http) as client, pytest.raises(Fault) as caught:
            client.quick(x=1.0)
        assert caught.value.code is Code.UNAVAILABLE
        assert not running.done()
        gates[0].open(b"well")
        assert running.result(20) == [b"well"]
        assert process.wait(20) == 0


@pytest.mark.slow
def test_b26_a_second_signal_ends_it_at_once(tmp_path: Path, gates: tuple[Gate, Gate]) -> None:
    with served(tmp_path) as (process, http):
        held(http, gates[0])
        process.send_signal(signal.SIGTERM)
        eventually(lambda: httpx.get(f"{http}/v2/health/ready").status_code == 503)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == -signal.SIGTERM
    let_go(gates[0])


@pytest.mark.slow
def test_b26_what_takes_longer_than_the_grace_time_is_given_up(
    tmp_path: Path, gates: tuple[Gate, Gate]
) -> None:
    with served(tmp_path, "--grace", "0.2") as (process, http):
        held(http, gates[0])
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 3
    let_go(gates[0])


def let_go(gate: Gate) -> None:
    """Close the side of a gate whose other side is gone."""
    with suppress(BrokenPipeError):
        gate.open()
