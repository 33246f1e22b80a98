"""Plans for machines that are not here: what they have, and what is refused for them."""

from pathlib import Path

import pytest

from headrace.compiler import plan_file
from headrace.compiler.driver import compile_with_warnings
from headrace.compiler.explain import explain
from headrace.compiler.plan import Plan
from headrace.compiler.target import Target, TargetError, load_target, target_names
from headrace.dsl.diagnostic import CompileError, Diagnostic
from headrace.dsl.source import Source
from tests.runtime.plans import add_model

NAMES = {"orin-nano", "orin-agx", "thor", "l4", "h200", "cpu-x86", "cpu-arm"}
SOURCE = """
model m1 = onnx "m1.onnx" (x: f32[N]) -> (y: f32[N])
model m2 = onnx "m2.onnx" (x: f32[N]) -> (y: f32[N])

pipeline p(x: f32[{size}]) -> (y: f32[{size}]) {{
    return y = m2(m1(x))
}}

schedule p {{
    {schedule}
}}
"""


def compiled(folder: Path, target: str, schedule: str, size: int = 3, more: str = "") -> Plan:
    for number in (1, 2):
        (folder / f"m{number}.onnx").write_bytes(add_model(number, "N"))
    text = SOURCE.format(schedule=schedule, size=size) + more
    source = Source("p.pipe", text, folder / "p.pipe")
    return compile_with_warnings(source, target=load_target(target)).plan


def refused(folder: Path, target: str, schedule: str, size: int = 3) -> Diagnostic:
    with pytest.raises(CompileError) as caught:
        compiled(folder, target, schedule, size)
    (found,) = caught.value.diagnostics
    assert found.code == "HR426"
    return found


def test_each_target_is_a_file_that_says_what_the_machine_has() -> None:
    assert set(target_names()) == NAMES
    for name in NAMES:
        target = load_target(name)
        assert target.machine in ("x86_64", "aarch64")
        assert target.name in str(target)
        assert all(one.sm.isdecimal() and 50 <= int(one.sm) <= 121 for one in target.gpus)
        assert all((one.memory is None) == target.unified for one in target.gpus)
        assert not target.unified or target.memory is not None


@pytest.mark.parametrize(
    ("name", "sm", "dla", "unified"),
    [
        ("orin-nano", "87", 0, True),
        ("orin-agx", "87", 2, True),
        ("thor", "110", 0, True),
        ("l4", "89", 0, False),
        ("h200", "90", 0, False),
    ],
)
def test_boards_and_servers_are_told_apart(name: str, sm: str, dla: int, unified: bool) -> None:
    target: Target = load_target(name)
    (gpu,) = target.gpus
    assert (gpu.sm, gpu.dla, target.unified) == (sm, dla, unified)


def test_a_name_that_is_none_is_told_with_the_nearest() -> None:
    with pytest.raises(TargetError) as caught:
        load_target("h20")
    assert (caught.value.code, caught.value.help) == ("HR427", "did you mean `h200`?")


def test_a_plan_for_a_board_maps_what_goes_in_and_says_what_it_is_for(tmp_path: Path) -> None:
    plan = compiled(tmp_path, "orin-agx", "device = gpu(0)")
    assert plan.target == "orin-agx"
    text = explain(plan)
    assert "mapped 1 in, copies 1 out" in text
    assert "for orin-agx (Jetson AGX Orin 64 GB): aarch64, gpu(0)" in text
    assert plan_file.read(plan_file.to_bytes(plan)) == plan
    server = compiled(tmp_path, "h200", "device = gpu(0)")
    assert "copies 1 in, 1 out" in explain(server)


def test_what_is_computed_is_the_same_for_all_of_them(tmp_path: Path) -> None:
    bodies = {
        (plan.pipelines, plan.segments, plan.blobs)
        for plan in (compiled(tmp_path, name, "m1 { batch { max = 4 } }") for name in NAMES)
    }
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("target", "schedule", "at", "told"),
    [
        ("cpu-arm", "device = gpu(0)", "device = gpu(0)", "and `cpu-arm` has no GPU"),
        ("l4", "m1 { device = gpu(1) }", "device = gpu(1)", "`m1` is on gpu(1), and `l4` has gpu("),
        (
            "l4",
            "m2 { instances = [gpu(0), gpu(1)] }",
            "instances = [gpu(0), gpu(1)]",
            "`m2` is on gpu(1), and `l4` has gpu(0)",
        ),
        (
            "orin-nano",
            "m1 { device = dla(0), backend = tensorrt }",
            "device = dla(0)",
            "`m1` is on dla(0), and `orin-nano` has no DLA cores",
        ),
        (
            "orin-agx",
            "m1 { device = dla(2), backend = tensorrt }",
            "device = dla(2)",
            "`m1` is on dla(2), and `orin-agx` has 2 DLA cores",
        ),
    ],
)
def test_a_device_that_the_target_has_not_is_told_where_it_is_named(
    tmp_path: Path, target: str, schedule: str, at: str, told: str
) -> None:
    found = refused(tmp_path, target, schedule)
    assert found.primary.span.text == at
    assert told in found.message


GIB = 1 << 28  # values of four bytes


@pytest.mark.parametrize(
    ("target", "gib", "fits"),
    [("orin-nano", 3, False), ("orin-agx", 3, True), ("l4", 12, False), ("h200", 12, True)],
)
def test_memory_of_a_gpu_is_what_the_target_has(
    tmp_path: Path, target: str, gib: int, fits: bool
) -> None:
    if fits:
        compiled(tmp_path, target, "device = gpu(0)", gib * GIB)
        return
    found = refused(tmp_path, target, "device = gpu(0)", gib * GIB)
    assert f"and `{target}` has " in found.message
    assert "for the values of a request" in found.notes[0]


def test_the_schedule_that_has_the_name_of_the_target_holds(tmp_path: Path) -> None:
    more = 'schedule p on "h200" { m1 { device = gpu(0) } }\n'
    assert "gpu:0" in explain(compiled(tmp_path, "h200", "", more=more))
    assert "gpu:0" not in explain(compiled(tmp_path, "cpu-x86", "", more=more)).split("for ")[0]
