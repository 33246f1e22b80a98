"""What front ends run at once, being cheap, takes room for its inputs as what is submitted does."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import ModuleType

import numpy as np
import pytest

from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.repository import Candidate, Repository
from headrace.runtime.request import Code, Fault, Request
from tests.runtime.drivers import LONG
from tests.runtime.plans import PlanMaker, block, call, fields
from tests.runtime.repository.plans import ask, serving

HALL = "hall_of_room"
SOURCE = f"import {HALL} as hall\n\ndef waits(x):\n    return hall.waits(x)\n"
X, Y = fields(x="f32[N]"), fields(y="f32[N]")


class Hall(ModuleType):
    """Holds a stage until the test opens it."""

    def __init__(self) -> None:
        super().__init__(HALL)
        self.entered, self.opened = threading.Semaphore(0), threading.Event()

    def waits(self, x: object) -> object:
        self.entered.release()
        assert self.opened.wait(LONG)
        return x


@pytest.fixture
def hall() -> Iterator[Hall]:
    made = sys.modules[HALL] = Hall()
    yield made
    del sys.modules[HALL]


def test_cheap_requests_are_held_to_the_bytes_in_flight(hall: Hall) -> None:
    maker = PlanMaker()
    stage = maker.python("waits", SOURCE, X, Y)
    maker.pipeline("p", X, Y, block([0], [call(stage, [0], [1])], [1]))
    config = EngineConfig(workers=1, intra_op_threads=1, bytes_in_flight=8)
    with closing(Repository(config)) as repository:
        repository.update("app", {1: Candidate(maker.plan)}).result(LONG)
        service, served = serving(repository), repository.routes["p"].main
        assert served is not None
        served.prepared.measured(1e-6)
        assert served.prepared.cheap
        with ThreadPoolExecutor(2) as pool:
            first = [pool.submit(ask, service, x=x) for x in (1.0, 2.0)]
            for _ in first:
                assert hall.entered.acquire(timeout=LONG)
            with pytest.raises(Fault, match="fill the memory set aside") as caught:
                ask(service)
            assert caught.value.code is Code.OVERLOADED
            with pytest.raises(Fault, match="12 bytes, more than are taken in") as caught:
                service.begin(served.model, Request("p", {"x": np.zeros(3, np.float32)}))
            assert caught.value.code is Code.INVALID
            hall.opened.set()
            assert [one.result(LONG) for one in first] == [(1.0, "1"), (2.0, "1")]
        assert ask(service, x=3.0) == (3.0, "1")
        assert served.engine.metrics.pipeline("p").failures == {
            Code.OVERLOADED.value: 1,
            Code.INVALID.value: 1,
        }
