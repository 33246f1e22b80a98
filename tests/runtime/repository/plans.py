"""Plans for the tests of repositories: versions that differ by what they add, and slow loads."""

import threading
from concurrent.futures import Future
from dataclasses import replace

import numpy as np

from headrace.compiler.plan import Plan, PythonSegment, StateVariable
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.repository.repository import Repository
from headrace.runtime.request import InSequence, Request
from headrace.runtime.service import Service
from headrace.stdlib.op import Item, Literal
from tests.runtime.plans import PlanMaker, add_model, block, call, fields

X, Y = fields(x="f32[N]"), fields(y="f32[N]")


class LoadGate:
    """What a Python model's constructor waits at; with `broken` it raises then."""

    def __init__(self, *, broken: bool = False, shut: bool = True) -> None:
        self._entered, self._go, self._broken = threading.Event(), threading.Event(), broken
        self.closed = 0
        if not shut:
            self._go.set()

    def entered(self) -> None:
        """Return when a load is here."""
        assert self._entered.wait(20)

    def open(self) -> None:
        self._go.set()

    def pass_through(self) -> None:
        self._entered.set()
        assert self._go.wait(20)
        if self._broken:
            raise RuntimeError("no such weights")


GATES: dict[str, LoadGate] = {}
"""The gates of running tests, for the sources of their plans."""

MODEL = """
from tests.runtime.repository.plans import GATES

class Gated:
    def __init__(self):
        self.gate = GATES["{name}"]
        self.gate.pass_through()

    def __call__(self, x):
        return x

    def close(self):
        self.gate.closed += 1
"""


def adding(amount: float, *, name: str = "p", gate: str | None = None) -> Plan:
    """A pipeline that adds to x in an ONNX model; a child model of it passes a gate when loaded."""
    maker = PlanMaker()
    steps, at = [call(maker.onnx("add", add_model(amount, "N"), X, Y), [0], [1])], 1
    if gate is not None:
        child = maker.python("Gated", MODEL.format(name=gate), X, Y)
        segment = maker.segments[child]
        assert isinstance(segment, PythonSegment)
        maker.segments[child] = replace(segment, instances=1)
        steps.append(call(child, [1], [2]))
        at = 2
    maker.pipeline(name, X, Y, block([0], steps, [at]))
    return maker.plan()


def summing(start: float, idle: float = 60.0) -> Plan:
    """A pipeline per sequence: what it was given so far, added up from `start`."""
    maker = PlanMaker()
    one, total = fields(x="f32"), fields(total="f32")
    add = maker.op("math.add", "f32")
    maker.pipeline("sum", one, total, block([0, 1], [call(add, [0, 1], [2])], [2, 2]))
    initial: Literal = start
    state = StateVariable(fields(s="f32")[0], initial)
    maker.pipelines[0] = replace(maker.pipelines[0], states=(state,), idle=idle)
    return maker.plan()


def serving(repository: Repository) -> Service:
    service = Service(repository, Limits())
    service.set_ready(True)
    return service


def ask(
    service: Service,
    name: str = "p",
    x: float = 0.0,
    *,
    version: str = "",
    id: str = "",
    sequence: InSequence | None = None,
) -> tuple[float, str]:
    """Send a request as a front end does; return the first number and which version answered."""
    model = service.find(name, version)
    value: Item = np.float32(x) if sequence is not None else np.full(1, x, np.float32)
    request = Request(name, {"x": value}, id, sequence=sequence)
    answering, outcome = service.begin(model, request, version)
    outputs = outcome.result(20).outputs if isinstance(outcome, Future) else outcome
    first = next(iter(outputs.values()))
    return float(np.ravel(np.asarray(first))[0]), answering.version


FAIL = """
def fail(x):
    raise ValueError("no")
"""
STOP = """
from tests.runtime.repository.plans import GATES

def stop(x):
    GATES["{name}"].pass_through()
    return x
"""


def failing() -> Plan:
    """A pipeline whose function raises."""
    return _of_function("fail", FAIL)


def stopping(gate: str) -> Plan:
    """A pipeline whose function passes a gate when it runs."""
    return _of_function("stop", STOP.format(name=gate))


def _of_function(name: str, source: str) -> Plan:
    maker = PlanMaker()
    function = maker.python(name, source, X, Y)
    maker.pipeline("p", X, Y, block([0], [call(function, [0], [1])], [1]))
    return maker.plan()
