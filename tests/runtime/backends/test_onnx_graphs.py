"""Runs at fixed places, as CUDA graphs want them, on the simulated device: which runs, what they
copy, and that none sees another's values. What a graph is there, ONNX Runtime does not say."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.compiler.explain import explain
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.engine import Engine
from headrace.runtime.engine_config import EngineConfig
from headrace.runtime.request import Request
from tests.runtime.devices.test_gpu import gpus

PIPE = """
model m = onnx "m.onnx" (a: f32[4], b: f32[4]) -> (total: f32[4], difference: f32[4])

pipeline p(a: f32[4], b: f32[4]) -> (total: f32[4], difference: f32[4]) batch 8 {
    total, difference = m(a, b)
    return total = total, difference = difference
}

schedule p {
    m { device = sim, graphs = on, warmup = [1, 4] }
}
"""


def written(folder: Path, text: str = PIPE, size: int | str = 4) -> Path:
    def value(name: str) -> Any:  # Any: onnx has partial types
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])

    nodes = [
        helper.make_node("Add", ["a", "b"], ["total"]),
        helper.make_node("Sub", ["a", "b"], ["difference"]),
    ]
    given, found = map(value, "ab"), map(value, ("total", "difference"))
    graph = helper.make_graph(nodes, "g", list(given), list(found))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    (folder / "p.pipe").write_text(text)
    return folder / "p.pipe"


def ask(engine: Engine, rows: int, seed: int) -> None:
    """Assert that an answer is right."""
    a, b = np.random.default_rng(seed).random((2, rows, 4), np.float32)
    outputs = engine.call(Request("p", {"a": a, "b": b})).outputs
    assert np.array_equal(np.asarray(outputs["total"]), a + b)
    assert np.array_equal(np.asarray(outputs["difference"]), a - b)


@pytest.mark.parametrize("delay", [None, 0, 1])
def test_sizes_that_were_warmed_up_run_at_places_of_their_own(
    delay: int | None, tmp_path: Path
) -> None:
    device = SimDevice(config=SimConfig(delay=delay, leaks=True))
    plan = headrace.compile(written(tmp_path)).plan
    engine = Engine(plan, EngineConfig(workers=2, devices=(device,)))
    for round in range(3):
        for rows in (4, 1, 3, 8):
            before = device.ledger
            ask(engine, rows, round)
            device.settle()
            after = device.ledger
            moved = 4 if rows in (1, 4) else 0  # both inputs and both results, within the device
            assert (after.d2d - before.d2d, after.h2d - before.h2d) == (moved, 2)
            if round:
                assert after.allocations == before.allocations
    engine.close()
    device.close()  # raises where a value is left


def test_executions_of_one_size_do_not_meet_at_its_place(tmp_path: Path) -> None:
    device = SimDevice(config=SimConfig(leaks=True))
    plan = headrace.compile(written(tmp_path)).plan
    engine = Engine(plan, EngineConfig(workers=4, devices=(device,)))
    wrong: list[BaseException] = []

    def call(number: int) -> None:
        try:
            for turn in range(10):
                ask(engine, (1, 4, 2)[turn % 3], number * 100 + turn)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []
    engine.close()
    device.close()


@pytest.mark.gpu
def test_a_gpu_answers_from_graphs_as_without(tmp_path: Path) -> None:
    if gpus() == 0 or "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("needs headrace[gpu] and a CUDA device")
    plan = headrace.compile(written(tmp_path, PIPE.replace("sim", "gpu(0)"))).plan
    engine = Engine(plan, EngineConfig(workers=2))
    for round in range(3):
        for rows in (4, 1, 3, 8):
            ask(engine, rows, round)
    engine.close()


def test_explain_says_of_which_sizes(tmp_path: Path) -> None:
    text = explain(headrace.compile(written(tmp_path)).plan)
    assert "warm-up 1, 4 rows · CUDA graphs of these sizes" in text


def test_explain_says_how_much_of_a_gpu_a_session_may_take(tmp_path: Path) -> None:
    on_gpu = PIPE.replace("device = sim", "device = gpu(0)")
    bound = on_gpu.replace("schedule p {", "schedule p {\n    memory { gpu(0) = 2GiB }")
    text = explain(headrace.compile(written(tmp_path, bound)).plan)
    assert "CUDA graphs of these sizes · arena up to 2 GiB" in text
    assert "arena" not in explain(headrace.compile(written(tmp_path, on_gpu)).plan)


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ("device = sim, ", "", "it runs on cpu"),
        (", warmup = [1, 4]", "", "the sizes that it is warmed up with"),
        ("device = sim", "device = sim, backend = openvino", "only what ONNX Runtime runs"),
        ("f32[4]", "f32[K]", "has one size, and `a` is f32[K]"),
    ],
)
def test_where_there_would_be_none_it_is_refused(
    wrong: str, right: str, said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, PIPE.replace(wrong, right), "K" if "K" in right else 4)
    with pytest.raises(headrace.CompileError) as caught:
        headrace.compile(path)
    assert [one.code for one in caught.value.diagnostics] == ["HR403"]
    assert said in str(caught.value)
