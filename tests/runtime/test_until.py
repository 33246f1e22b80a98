"""Times that are further off than a thread can wait are waited for all the same."""

import math
import sys
import threading
from types import ModuleType

import pytest

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, Request
from headrace.runtime.until import seconds_until
from tests.runtime.plans import PlanMaker, block, call, fields

HELD = """
import latch

def held(x):
    latch.entered.set()
    assert latch.opened.wait(20)
    return x
"""


def test_a_wait_is_never_negative_nor_longer_than_can_be() -> None:
    assert seconds_until(None, 5.0) is None
    assert seconds_until(3.0, 5.0) == 0.0
    assert seconds_until(6.0, 5.0) == 1.0
    assert seconds_until(math.inf, 5.0) == threading.TIMEOUT_MAX


@pytest.mark.parametrize("far", [1e12, math.inf])
def test_a_limit_that_is_far_off_does_not_hide_one_that_is_near(
    far: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    latch = ModuleType("latch")
    entered, opened = threading.Event(), threading.Event()
    latch.entered, latch.opened = entered, opened  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "latch", latch)
    maker = PlanMaker()
    held = maker.python("held", HELD, fields(x="f32"), fields(y="f32"))
    maker.pipeline("p", fields(x="f32"), fields(y="f32"), block([0], [call(held, [0], [1])], [1]))
    config = EngineConfig(workers=1, intra_op_threads=1)
    engine = Engine(maker.plan(), config)
    first = engine.submit(Request("p", {"x": 1.0}, deadline=far))  # type: ignore[dict-item]
    assert entered.wait(20)
    near = Request("p", {"x": 2.0}, deadline=config.clock() + 0.01)  # type: ignore[dict-item]
    with pytest.raises(Fault) as caught:
        engine.submit(near).result(10)
    assert caught.value.code is Code.DEADLINE
    opened.set()
    assert first.result(20).outputs
    engine.close()
