"""A stage that waits until a test lets it go, and engines that have it."""

import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.plan import Batching, Queueing
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import (
    Request,
    Response,
)
from tests.runtime.plans import PlanMaker, add_model, block, call, fields

GATED = """
import gate

def gated(x):
    if x > 0:
        gate.entered.release()
        assert gate.opened.wait(20)
    return x

def spread(n):
    import numpy as np
    return np.arange(int(n), dtype=np.float32)
"""


class Gate(ModuleType):
    """Holds a stage until the test opens it; `entered` counts who has come."""

    def __init__(self) -> None:
        super().__init__("gate")
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = sys.modules["gate"] = Gate()
    yield made
    made.opened.set()
    del sys.modules["gate"]


def gated(*, queueing: Queueing | None = None, deadline: float | None = None) -> PlanMaker:
    """Waits at the gate when x > 0; then x + 1, where rows of requests meet."""
    maker = PlanMaker()
    first = maker.python("gated", GATED, fields(x="f32"), fields(y="f32"))
    second = maker.onnx(
        "add",
        add_model(1.0),
        fields(x="f32"),
        fields(y="f32"),
        batching=Batching(8, 0.002, ()),
    )
    body = block([0], [call(first, [0], [1]), call(second, [1], [2])], [2])
    maker.pipeline(
        "p", fields(x="f32"), fields(y="f32"), body, queueing=queueing, deadline=deadline
    )
    return maker


def opened(maker: PlanMaker, workers: int = 1) -> Engine:
    return Engine(maker.plan(), EngineConfig(workers=workers, intra_op_threads=1))


def asking(x: float, **more: object) -> Request:
    return Request("p", {"x": x}, **more)  # type: ignore[arg-type, dict-item]


def number(response: Response) -> float:
    return float(np.asarray(response.outputs["y"]))
