"""Counts of an engine and their exposition agree, to the request, with the calls that were made."""

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import httpx
import numpy as np
import pytest

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Fault, Request
from headrace.runtime.server import serve
from headrace.runtime.server_config import Carrier
from tests.runtime.observe.pipes import plan_in
from tests.runtime.wire.conftest import free_ports


class Gate(ModuleType):
    """What the stage `wait` waits for, and tells that it has come."""

    def __init__(self) -> None:
        super().__init__("observed_gate")
        self.open, self.arrived = threading.Event(), threading.Semaphore(0)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = sys.modules["observed_gate"] = Gate()
    yield made
    made.open.set()
    del sys.modules["observed_gate"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    plan = plan_in(tmp_path, schedule="server").plan
    made = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
    yield made
    made.close()


def exposed(address: str) -> dict[str, float]:
    """Return each sample by its name and labels, as they are written."""
    text = httpx.get(f"http://{address}/metrics").text
    found = re.findall(r"^([a-z_]\w*(?:\{.*?\})?) ([0-9.e+-]+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def test_what_is_in_flight_is_told_by_pipeline_and_level(engine: Engine, gate: Gate) -> None:
    inputs = {"x": np.float32(1)}
    asked = [
        engine.submit(Request("slow", inputs, priority=priority)) for priority in (1, 2, 3, 3, 0)
    ]
    for _ in range(2):
        assert gate.arrived.acquire(timeout=20)
    counts = engine.metrics.pipeline("slow")
    assert counts.levels == {1: 1, 2: 2, 3: 2}
    assert (counts.in_flight, counts.pending) == (5, 3)
    gate.open.set()
    for one in asked:
        one.result(20)
    counts = engine.metrics.pipeline("slow")
    assert (counts.in_flight, counts.pending, counts.successes) == (0, 0, 5)


def test_the_exposition_agrees_with_the_calls(engine: Engine) -> None:
    with serve([engine], free_ports(Carrier.AUTO)) as server:
        for xs in ([1.0, 2.0], [1.0, 5.0], [7.0]):
            engine.submit(Request("each", {"xs": np.array(xs, np.float32)})).result(20)
        for _ in range(2):
            with pytest.raises(Fault):
                engine.submit(Request("fails", {"x": np.float32(5)})).result(20)
        found = exposed(str(server.addresses.metrics))
    each = 'model="each",version="1"'
    assert found[f"nv_inference_request_success{{{each}}}"] == 3
    failed = 'model="fails",reason="BACKEND",version="1"'
    assert found[f"nv_inference_request_failure{{{failed}}}"] == 2
    assert found[f"nv_inference_pending_request_count{{{each}}}"] == 0
    assert found[f"nv_cache_num_hits_per_model{{{each}}}"] == 1
    assert found[f"nv_cache_num_misses_per_model{{{each}}}"] == 4
    double = 'app="plan-0",stage="double"'
    assert found[f"headrace_stage_cache_hits_total{{{double}}}"] == 1
    assert found[f"headrace_stage_rows_total{{{double}}}"] == 4 + 2  # those of `fails` too
    batches = found[f"headrace_stage_batch_size_count{{{double}}}"]
    assert batches == found[f"headrace_stage_executions_total{{{double}}}"]
    assert found[f"headrace_stage_batch_size_sum{{{double}}}"] == 6
    fallbacks = [value for name, value in found.items() if name.startswith("headrace_try_fall")]
    assert sum(fallbacks) == 3  # 2 * 2, 2 * 5 and 2 * 7 are more than two
    in_flight = [value for name, value in found.items() if name.startswith("headrace_requests_in")]
    assert in_flight
    assert not any(in_flight)
