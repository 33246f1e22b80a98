"""Instances on several devices: a lane for each, and every copy as planned on all of them."""

import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headrace.compiler import compile_source, plan_file
from headrace.compiler.explain import explain
from headrace.compiler.plan import Plan, SpreadStep
from headrace.compiler.plan_walk import copies_of, segments_of
from headrace.dsl.diagnostic import CompileError
from headrace.dsl.source import Source
from headrace.dsl.types import DType, TensorType
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.flow import FREED, ONE, Block, Emission, Walk
from headrace.runtime.iterate import Emit
from headrace.runtime.observe.trace import Trace
from headrace.runtime.request import Fault, Request
from headrace.runtime.simulate import Simulation
from headrace.runtime.spread import Spread
from tests.runtime.plans import add_model

MODELS = """
model m1 = onnx "m1.onnx" (x: f32[N]) -> (y: f32[N])
model m2 = onnx "m2.onnx" (x: f32[N]) -> (y: f32[N])
"""
PIPELINE = "pipeline p(x: f32[N]) -> (y: f32[N], z: f32[N]) { z = m1(x); return y = m2(z), z = z }"


def compiled(tmp_path: Path, schedule: str, pipeline: str = PIPELINE) -> Plan:
    for number in (1, 2):
        (tmp_path / f"m{number}.onnx").write_bytes(add_model(number, "N"))
    path = tmp_path / "p.pipe"
    text = f"{MODELS}{pipeline.replace('; ', chr(10))}\nschedule p {{ {schedule} }}\n"
    return compile_source(Source(path.name, text, path))


def lanes(plan: Plan) -> SpreadStep:
    (step,) = plan.pipeline("p").body.steps
    assert isinstance(step, SpreadStep)
    return step


def devices(delay: int | None = None) -> tuple[SimDevice, ...]:
    return tuple(SimDevice(number, SimConfig(delay=delay)) for number in range(3))


def value(number: int) -> np.ndarray:
    return np.full(3, number, np.float32)


def test_each_device_has_a_lane_and_what_is_on_one_is_one_stage_for_all(tmp_path: Path) -> None:
    plan = compiled(tmp_path, "m1 { instances = [2 * sim, sim(1)] }, m2 { device = sim }")
    step = lanes(plan)
    assert step.shares == (2, 1)
    assert [copies_of(block) for block in step.blocks] == [
        ["sim", "cpu", "cpu"],
        ["sim:1", "sim", "cpu", "cpu"],
    ]
    first, second = explain(plan).split("-- lane 2 of 2, share 1: m1 on sim:1 --")
    assert "copies 1 in, 2 out" in first
    assert "copies 1 in, 1 between, 2 out" in second
    assert plan_file.read(plan_file.to_bytes(plan)) == plan
    first, second = (segments_of(block) for block in step.blocks)
    assert first[0] != second[0]
    assert first[1] == second[1]  # which is on one device, and so is the same for both


def test_stages_on_different_numbers_of_devices_have_each_equally_often(tmp_path: Path) -> None:
    step = lanes(
        compiled(
            tmp_path,
            "m1 { instances = [sim, sim(1)] }, m2 { instances = [sim, sim(1), sim(2)] }",
        )
    )
    assert len(step.blocks) == 6


@pytest.mark.parametrize(
    ("schedule", "pipeline", "told"),
    [
        (
            "m1 { instances = [sim, sim(1)] }",
            "pipeline p(x: f32[2]) -> (y: f32[2]) per sequence idle 60s "
            "{ state s: f32[2] = [0.0, 0.0]; next s = m1(s); return y = m1(x) }",
            "of a pipeline `per sequence` a stage has its instances on one device",
        ),
        (
            f"m1 {{ instances = [{', '.join(f'sim({n})' for n in range(5))}] }}, "
            f"m2 {{ instances = [{', '.join(f'sim({n})' for n in range(4))}] }}",
            PIPELINE,
            "make 20 lanes, and at most 16 are laid out",
        ),
    ],
)
def test_what_cannot_be_spread_is_told(
    tmp_path: Path, schedule: str, pipeline: str, told: str
) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(tmp_path, schedule, pipeline)
    assert {(one.code, told in one.message) for one in caught.value.diagnostics} == {
        ("HR406", True)
    }


@pytest.mark.parametrize("delay", [None, 0, 1])
def test_requests_of_many_threads_copy_as_their_lanes_say(
    tmp_path: Path, delay: int | None
) -> None:
    plan = compiled(
        tmp_path,
        "m1 { instances = [sim, sim(1)] }, m2 { instances = [sim(1), sim(2)], batch { max = 4 } }",
    )
    opened = devices(delay)
    engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1, devices=opened))
    futures = [engine.submit(Request("p", {"x": value(number)})) for number in range(24)]
    for number in range(24):
        response = futures.pop(0).result(timeout=20)
        np.testing.assert_array_equal(response.outputs["y"], value(number + 3))
        np.testing.assert_array_equal(response.outputs["z"], value(number + 1))
    first = {one.name: one.stages for one in opened}
    ups = [first["sim"]["to sim"].h2d, first["sim:1"]["to sim:1"].h2d]
    assert sum(ups) == 24
    assert min(ups) > 0  # both lanes were taken
    between = [first["sim:1"]["to sim:1"].d2d, first["sim:2"]["to sim:2"].d2d]
    assert between == ups  # from one device to the other, never by way of the host
    assert sum(one.ledger.d2h for one in opened) == 48
    assert engine.settle(20)
    for one in opened:
        one.settle()
        assert one.ledger.balanced
    engine.close()
    for one in opened:
        one.close()


def test_a_lane_has_its_share_of_what_is_under_way() -> None:
    spread = Spread(tuple(map(emitting, range(2))), (3, 1), (0,))
    walks = [spread.walk([FREED], ONE) for _ in range(8)]
    assert Counter(map(lane_of, walks)) == {0: 6, 1: 2}
    for walk in walks:
        walk.close()  # as of requests that were taken back
    assert lane_of(spread.walk([FREED], ONE)) == 0  # nothing else is under way any more


def emitting(number: int) -> Block:
    """Return a lane that emits its number."""
    return Block((), (), ((0, number, TensorType(DType.I64)),), [(Emit((0,)), ())], (0,), 1)


def lane_of(walk: Walk) -> object:
    emission = next(walk)
    assert isinstance(emission, Emission)
    return emission.columns[0].plain()[0]


def test_a_lane_whose_device_fails_lets_the_next_request_through(tmp_path: Path) -> None:
    plan = compiled(tmp_path, "m1 { instances = [sim, sim(1)] }")
    small = SimDevice(0, SimConfig(capacity=1 << 10))
    other = SimDevice(1)
    engine = Engine(plan, EngineConfig(workers=1, devices=(small, other)))
    outcomes: list[str | None] = []
    for _ in range(4):
        try:
            engine.call(Request("p", {"x": np.ones(1000, np.float32)}))
            outcomes.append("good")
        except Fault as fault:
            outcomes.append(fault.stage)
    assert outcomes == ["to sim", "good", "to sim", "good"]
    engine.close()


FIXED = "pipeline p(x: f32[1024]) -> (y: f32[1024]) { return y = m2(m1(x)) }"
PLACES = "m1 { instances = [sim, sim(2)] }, m2 { device = sim(1) }"


@pytest.mark.parametrize(
    ("budgets", "over"),
    [
        ("sim = 8KiB, sim(1) = 8KiB, sim(2) = 8KiB, cpu = 4KiB", None),
        ("sim(0) = 8KiB, sim(1) = 7KiB", "sim(1) = 7KiB"),
        ("sim = 1KiB, sim(1) = 8KiB", "sim = 1KiB"),
        ("sim(2) = 1KiB", "sim(2) = 1KiB"),
    ],
)
def test_each_device_has_a_budget_that_is_held_to_when_compiling(
    tmp_path: Path, budgets: str, over: str | None
) -> None:
    schedule = f"{PLACES}, memory {{ {budgets} }}"
    if over is None:
        plan = compiled(tmp_path, schedule, FIXED)
        peaks = {one.device: (one.peak, one.budget) for one in plan.memory}
        assert peaks == {
            "cpu": (4096, 4096),
            **dict.fromkeys(("sim", "sim:1", "sim:2"), (8192, 8192)),
        }
        return
    with pytest.raises(CompileError) as caught:
        compiled(tmp_path, schedule, FIXED)
    (found,) = caught.value.diagnostics
    assert (found.code, found.primary.span.text) == ("HR421", over)


def test_a_recorded_request_tells_of_the_lane_that_it_took(tmp_path: Path) -> None:
    plan = compiled(tmp_path, "m1 { instances = [sim, sim(1)] }")
    simulation = Simulation(plan, devices=devices())
    outcome, recording = simulation.record(Request("p", {"x": value(1)}))
    simulation.run()
    assert outcome.outputs is not None, outcome.fault
    stages = [span.stage for span in Trace(recording).spans if span.stage]
    assert stages[0] in ("to sim", "to sim:1")
    assert "m1" in stages
    simulation.close()


def test_two_devices_that_copy_from_each_other_at_once_do_not_lock_up() -> None:
    one, two = (SimDevice(number) for number in range(2))
    failed: list[BaseException] = []

    def swap(ours: SimDevice, theirs: SimDevice) -> None:
        try:
            near, far = ours.stream(), theirs.stream()
            for number in range(50):
                view = theirs.upload(value(number), "up", far)
                copied = ours.receive(view, "across", near)
                np.testing.assert_array_equal(ours.download(copied, "down", near), value(number))
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=swap, args=pair) for pair in ((one, two), (two, one)) for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert one.ledger.balanced
    assert two.ledger.balanced
