"""A stage is warmed up when its plan is loaded, with as many rows as its schedule says."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.compiler.plan import Check, Isolation, ModelSegment, PythonSegment, Service
from headrace.dsl.types import DimArith, DimVar, DType, Field, TensorType
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.devices.simulation.faults import Faults
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.request import Fault, Request
from headrace.runtime.stand_ins import smallest
from tests.runtime.plans import PlanMaker, add_model, block, call, fields
from tests.runtime.test_sim_device import sim_chain
from tests.runtime.wire.conftest import eventually

X, Y = fields(x="f32[N]"), fields(y="f32[N]")


def engine_of(
    maker: PlanMaker, *rows: int, isolation: Isolation | None = None, **changes: object
) -> Engine:
    (segment,) = maker.segments
    assert isinstance(segment, ModelSegment | PythonSegment)
    service = Service(warmup=rows, isolation=isolation)
    maker.segments[0] = replace(segment, service=service, **changes)  # type: ignore[arg-type]
    maker.pipeline(
        "p",
        segment.signature.params,
        segment.signature.results,
        block([0], [call(0, [0], [1])], [1]),
    )
    return Engine(maker.plan(), EngineConfig(workers=1, intra_op_threads=1))


COUNTING = """
SEEN = []
class M:
    def __init__(self):
        self.number = len([one for one in SEEN if one == "made"])
        SEEN.append("made")
    def __call__(self, x):
        SEEN.append((self.number, x.shape))
        return x
"""


def test_each_instance_of_a_python_model_runs_each_number_of_rows_before_the_engine_is_ready() -> (
    None
):
    import sys

    maker, others = PlanMaker(), set(sys.modules)  # engines of other tests may be open still
    maker.python("M", COUNTING, X, Y, batched=True)
    engine = engine_of(maker, 1, 3, instances=2, group=4)
    loaded = sys.modules.keys() - others
    (module,) = [sys.modules[one] for one in loaded if one.startswith("headrace_source_")]
    runs = [one for one in module.SEEN if one != "made"]
    assert runs == [(0, (1, 1)), (1, (1, 1)), (0, (3, 1)), (1, (3, 1))]
    assert engine.metrics.stage("M").executions == 0  # nobody asked for them
    engine.close()


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "row by row"])
@pytest.mark.slow
def test_each_worker_of_an_isolated_stage_runs_as_many_rows_before_the_engine_is_ready(
    tmp_path: Path, batched: bool
) -> None:
    told = tmp_path / "told"
    source = f"""
import os

def note(x):
    with open({str(told)!r}, "a") as file:
        file.write(f"{{os.getpid()}} {{x.shape[0]}}\\n")
    return x
"""
    maker = PlanMaker()
    maker.python("note", source, X, Y, batched=batched)
    engine = engine_of(maker, 3, isolation=Isolation(None, None), instances=4)
    runs = [line.split() for line in told.read_text().splitlines()]
    engine.close()
    each = 1 if batched else 3  # a call for all rows, or for each of them
    counts = Counter(number for number, _ in runs)
    assert sorted(counts.values()) == [each] * 4
    assert {rows for _, rows in runs} == {"3" if batched else "1"}


@pytest.mark.slow
def test_a_worker_that_comes_back_is_warmed_up_once_more(tmp_path: Path) -> None:
    told = tmp_path / "told"
    source = f"""
import os
def note(x):
    with open({str(told)!r}, "a") as file:
        print(os.getpid(), len(x), file=file)
    if x[0, 0] == 7:
        os._exit(3)
    return x
"""
    maker = PlanMaker()
    maker.python("note", source, X, Y, batched=True)
    engine = engine_of(maker, 3, isolation=Isolation(None, None))
    with pytest.raises(Fault, match="status 3"):
        engine.call(Request("p", {"x": np.full(2, 7, np.float32)}))
    eventually(lambda: not engine.unready)
    engine.call(Request("p", {"x": np.zeros(2, np.float32)}))
    engine.close()
    runs = [line.split() for line in told.read_text().splitlines()]
    first, second = dict.fromkeys(pid for pid, _ in runs)
    assert [rows for pid, rows in runs if pid == first] == ["3", "1"]
    assert [rows for pid, rows in runs if pid == second] == ["3", "1"]


def test_named_sizes_are_the_smallest_that_the_checks_of_a_stage_allow() -> None:
    size = DimVar("N")
    check = Check(DimArith("%", size, 32), "==", 0, "N % 32 == 0")
    maker = PlanMaker()
    maker.onnx("m", add_model(1.0), X, Y, checks=(check,))
    maker.onnx("free", add_model(1.0), X, Y)
    limited, free = maker.segments
    assert isinstance(limited, ModelSegment)
    assert isinstance(free, ModelSegment)
    assert (smallest(limited), smallest(free)) == (32, 1)


@pytest.mark.parametrize(
    ("declared", "size"),
    [
        ("(x: f32[3, H, W]) -> (y: f32[H]) where H % 32 == 0, W >= 40", 64),
        ("(x: f32[N - 3, N]) -> (y: f32[N])", 4),
        ("(x: list<f32[W / 4], 9>) -> (y: f32[N])", 4),
        ("(x: f32[N]?) -> (y: f32[N])", 1),
    ],
)
def test_named_sizes_are_what_the_model_says_that_it_takes(
    tmp_path: Path, declared: str, size: int
) -> None:
    (tmp_path / "m.py").write_text("class M:\n    def __call__(self, x):\n        return x\n")
    params, results = declared.partition(" where")[0][1:-1].split(") -> (")
    (tmp_path / "p.pipe").write_text(
        f'model m = python "m.py:M" {declared}\n'
        f"pipeline p({params}) -> ({results}) {{ return y = m(x) }}\n"
    )
    (segment,) = headrace.compile(tmp_path / "p.pipe").plan.segments[-1:]
    assert isinstance(segment, PythonSegment)
    assert smallest(segment) == size


def test_sizes_that_cannot_be_are_an_error_at_loading() -> None:
    maker = PlanMaker()
    taken = (Field("x", TensorType(DType.F32, (DimArith("-", 0, DimVar("N")),))),)
    maker.python("M", COUNTING, taken, Y, batched=True)
    with pytest.raises(LoadError, match="cannot be made up") as caught:
        engine_of(maker, 1, instances=1, group=4)
    assert caught.value.code == "HR508"


def test_a_stage_that_fails_when_it_is_warmed_up_does_not_load_and_says_with_what() -> None:
    maker = PlanMaker()
    maker.onnx("m", add_model(1.0, 3), X, Y)
    said = r"stage `m`, .*its run with 2 rows of `x` float32\[1\] at loading fails: the model f"
    with pytest.raises(LoadError, match=said) as caught:
        engine_of(maker, 2)
    assert caught.value.code == "HR508"


def test_nothing_is_run_at_loading_without_being_asked_for() -> None:
    maker = PlanMaker()
    maker.onnx("m", add_model(1.0, 3), X, Y)
    engine_of(maker).close()


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (Faults(copies=frozenset({1})), "copy 1, of `m1`, has failed"),
        (Faults(allocations=frozenset({1})), "is out of memory"),
        (Faults(lost=range(2, 9)), "is lost"),
    ],
    ids=["copy", "memory", "device"],
)
def test_a_device_that_fails_at_loading_is_told_with_the_stage(faults: Faults, said: str) -> None:
    maker, device = PlanMaker(), SimDevice(config=SimConfig(faults=faults))
    sim_chain(maker)
    first = maker.segments[0]
    assert isinstance(first, ModelSegment)
    maker.segments[0] = replace(first, service=Service(warmup=(1,)))
    with pytest.raises(LoadError, match=rf"HR508 stage `m1`.*{said}"):
        Engine(maker.plan(), EngineConfig(workers=1, devices=(device,)))
    device.close()
