"""One plan, three drivers: what a test asks of a request holds whoever runs it."""

import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Protocol, TypeAlias, cast

from headrace.compiler.plan import Plan
from headrace.runtime.admission import Intake
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.metrics import Snapshot
from headrace.runtime.request import Fault, Request
from headrace.runtime.simulate import Outcome, Simulation
from headrace.runtime.streams import gathered
from headrace.stdlib.op import Item

Answer: TypeAlias = Mapping[str, Item] | Fault

WORKERS = 8
LONG = 20.0
"""Seconds after which a test says that something hangs."""


class Meeting(ModuleType):
    """What stages of a test import: `meet` returns when `expected` requests are in it at once, so
    that they come to the next stage together. Where one thread runs all of them it does not wait.
    """

    def __init__(self, name: str, together: bool) -> None:
        super().__init__(name)
        self._together, self._barrier = together, threading.Barrier(1)

    def expect(self, count: int) -> None:
        self._barrier = threading.Barrier(count if self._together else 1)

    def meet(self) -> None:
        self._barrier.wait(LONG)


class Driver(Protocol):
    """Answers requests that come at once."""

    @property
    def metrics(self) -> Snapshot: ...

    def ask(self, *requests: Request) -> list[Answer]: ...


class Simulated:
    """On a fake clock, in an order that a seed chooses."""

    def __init__(self, plan: Plan, workers: int = WORKERS, seed: int = 0) -> None:
        self.simulation = Simulation(
            plan, workers=workers, seed=seed, intake=Intake(queue_size=8192)
        )

    @property
    def metrics(self) -> Snapshot:
        return self.simulation.metrics

    def ask(self, *requests: Request) -> list[Answer]:
        outcomes = [self.simulation.submit(request) for request in requests]
        self.simulation.run()
        assert self.simulation.leftovers == {}
        return [answered(one) for one in outcomes]

    def close(self) -> None:
        self.simulation.close()


class Threaded:
    """On worker threads, which change as often as the interpreter lets them."""

    def __init__(self, plan: Plan, workers: int = WORKERS, queue_size: int = 8192) -> None:
        config = EngineConfig(workers=workers, intra_op_threads=1, queue_size=queue_size)
        self.engine = Engine(plan, config)

    @property
    def metrics(self) -> Snapshot:
        return self.engine.metrics

    def ask(self, *requests: Request) -> list[Answer]:
        futures = [self.engine.submit(request) for request in requests]
        answers: list[Answer] = []
        for future in futures:
            fault = future.exception(LONG)
            assert fault is None or isinstance(fault, Fault), fault
            answers.append(future.result().outputs if fault is None else fault)
        return answers

    def close(self) -> None:
        self.engine.close()


class Inline:
    """In the caller's thread, one after the other."""

    def __init__(self, plan: Plan) -> None:
        self.engine = Engine(plan, EngineConfig(workers=1, intra_op_threads=1))

    @property
    def metrics(self) -> Snapshot:
        return self.engine.metrics

    def ask(self, *requests: Request) -> list[Answer]:
        return [self._ask(request) for request in requests]

    def _ask(self, request: Request) -> Answer:
        try:
            return self.engine.call(request).outputs
        except Fault as fault:
            return fault

    def close(self) -> None:
        self.engine.close()


def answered(outcome: Outcome) -> Answer:
    """Return the only answer of a simulated request, with all that it has emitted."""
    assert outcome.answers == 1
    if outcome.fault is not None:
        return outcome.fault
    if outcome.emitted:
        return cast("Answer", gathered(list(outcome.emitted[0]), outcome.emitted))
    assert outcome.outputs is not None
    return outcome.outputs


@contextmanager
def switching() -> Generator[None]:
    """Let threads take turns so often that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def right(answer: Answer) -> Mapping[str, Item]:
    """Return the results of a request that has some."""
    assert not isinstance(answer, Fault), answer
    return answer


def wrong(answer: Answer) -> Fault:
    """Return the fault of a request that has failed."""
    assert isinstance(answer, Fault), answer
    return answer


def rights(answers: Sequence[Answer], read: Callable[[Item], object]) -> list[object]:
    """Return what `read` finds in the only result of each."""
    return [read(next(iter(right(one).values()))) for one in answers]
