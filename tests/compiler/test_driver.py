"""From sources to plans: the whole way, with models made here."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from headrace.compiler import check, compile_source, compile_with_warnings
from headrace.compiler.choose_schedule import ScheduleError
from headrace.compiler.explain import explain, why_not
from headrace.compiler.plan import CallStep, CheckStep, ModelSegment, Plan, PythonSegment
from headrace.compiler.plan_file import read, to_bytes, write
from headrace.compiler.policies import Isolation, Priorities, Queueing, Service
from headrace.dsl.diagnostic import CompileError, Severity
from headrace.dsl.source import Source

TEXT = """\
model double = onnx "double.onnx" (x: f32[4]) -> (y: f32[4])
model triple = onnx "triple.onnx" (x: f32[4]) -> (y: f32[4])
fn halve(x: f32[4]) -> (y: f32[4]) = python "stages.py:halve"

pipeline chain(x: f32[4]) -> (y: f32[4]) {
    return y = halve(triple(double(x)))
}

pipeline each(xs: f32[N, 4], big: bool) -> (ys: f32[N, 4]) {
    ys = for x in xs {
        y = if big { triple(x) } else { x }
        yield y = y
    }
    return ys = ys
}

schedule chain on "server" {
    triple { batch { max = 8, wait = 1ms }, device = sim }
    memory { cpu = 1MiB }
}

schedule chain on "default" {
}
"""


STAGES = """\
def halve(x):
    return x / 2

def both(a, b):
    return a + b
"""


def save_model(path: Path, factor: float) -> None:
    """y = x * factor over rows of four."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(np.array(factor, np.float32), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path):
    save_model(tmp_path / "double.onnx", 2)
    save_model(tmp_path / "triple.onnx", 3)
    (tmp_path / "stages.py").write_text(STAGES)
    return tmp_path


def source(folder: Path, text: str = TEXT) -> Source:
    path = folder / "a.pipe"
    path.write_text(text)
    return Source("a.pipe", text, path)


def names(plan: Plan) -> list[str]:
    return [segment.name for segment in plan.segments]


def test_a_source_becomes_a_plan_that_a_file_keeps(folder: Path) -> None:
    plan = compile_source(source(folder))
    assert [pipeline.name for pipeline in plan.pipelines] == ["chain", "each"]
    write(plan, folder / "a.plan")
    assert to_bytes(read(folder / "a.plan")) == to_bytes(plan)


def test_models_that_feed_each_other_are_one_segment_unless_the_schedule_parts_them(
    folder: Path,
) -> None:
    plan = compile_source(source(folder))
    first = plan.segments[0]
    assert isinstance(first, ModelSegment)
    assert first.members == ("double", "triple")
    parted = compile_source(source(folder), schedule="server")
    assert names(parted)[:3] == ["double", "triple", "halve"]


def test_without_optimising_every_call_is_a_segment(folder: Path) -> None:
    plan = compile_source(source(folder), optimise=False)
    assert names(plan) == ["double", "triple", "halve"]
    assert isinstance(plan.segments[2], PythonSegment)
    stages = [stage for stage, _ in plan.explanation]
    assert stages == ["graph", "choose_backends", "place_transfers", "plan"]


def test_a_plan_explains_every_pass_of_every_pipeline(folder: Path) -> None:
    plan = compile_source(source(folder), schedule="server")
    stages = [stage for stage, _ in plan.explanation]
    assert (stages[0], stages[-2:]) == ("graph", ["run_together", "plan"])
    assert "merge_models" in stages
    text = explain(plan)
    assert text.count("pipeline ") == 2
    assert (
        "-- segment triple · onnx · triple · batch up to 8, wait 1 ms (schedule 'server')" in text
    )
    assert "copies 1 in, 1 out" in text
    assert "a.pipe:6" in text
    assert "different settings" in why_not(plan, "merge_models") or "runs on" in why_not(
        plan, "merge_models"
    )


@pytest.mark.slow
def test_the_sources_have_the_same_bytes_in_another_folder_and_process(
    folder: Path, tmp_path: Path
) -> None:
    expected = to_bytes(compile_source(source(folder), schedule="server"))
    other = tmp_path / "elsewhere"
    other.mkdir()
    for name in ("double.onnx", "triple.onnx", "stages.py", "a.pipe"):
        (other / name).write_bytes((folder / name).read_bytes())
    program = (
        "import sys; from pathlib import Path;"
        "from headrace.compiler import compile_source;"
        "from headrace.compiler.plan_file import write;"
        "from headrace.dsl.source import Source; p = Path(sys.argv[1]);"
        "write(compile_source(Source(str(p), p.read_text(), p), schedule='server'), sys.argv[2])"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"  # this process has another
    subprocess.run(
        [sys.executable, "-c", program, str(other / "a.pipe"), str(other / "a.plan")],
        env={"PYTHONHASHSEED": seed},
        check=True,
    )
    assert (other / "a.plan").read_bytes() == expected


def test_a_plan_does_not_tell_where_it_was_made(folder: Path) -> None:
    assert str(folder).encode() not in to_bytes(compile_source(source(folder)))


def test_a_size_that_two_stages_must_agree_on_is_compared_by_a_step(folder: Path) -> None:
    text = """\
fn some(x: f32[4]) -> (y: f32[N]) = python "stages.py:halve"
fn both(a: f32[N], b: f32[N]) -> (y: f32[N]) = python "stages.py:both"

pipeline p(x: f32[4]) -> (y: f32[M]) {
    return y = both(some(x), some(x))
}
"""
    plan = compile_source(source(folder, text))
    steps = plan.pipelines[0].body.steps
    (compared,) = [step for step in steps if isinstance(step, CheckStep)]
    made = {step.outputs[0] for step in steps[:2] if isinstance(step, CallStep)}
    assert {slot for _, slot, _ in compared.sizes} == made


def test_warnings_come_beside_the_plan(folder: Path) -> None:
    text = TEXT + 'schedule each on "server" { memory { cpu = 1MiB } }\n'
    compiled = compile_with_warnings(source(folder, text), schedule="server")
    (warning,) = compiled.warnings
    assert (warning.code, warning.severity) == ("HR422", Severity.WARNING)
    assert warning.notes == ("on cpu: `y`",)


def test_a_pipeline_over_its_budget_is_a_mistake_that_shows_the_peak(folder: Path) -> None:
    text = (
        TEXT.replace("cpu = 1MiB", "cpu = 1KiB").replace("f32[4]", "f32[4000]").replace("4]", "4]")
    )
    text = """\
pipeline p(x: f32[4000]) -> (y: f32[4000]) {
    return y = (x + 1.0) * (x + 2.0)
}

schedule p { memory { cpu = 10KiB } }
"""
    with pytest.raises(CompileError) as caught:
        compile_source(source(folder, text))
    (found,) = caught.value.diagnostics
    assert (found.code, found.primary.span.text) == ("HR421", "cpu = 10KiB")
    assert "needs 48,384 bytes on cpu, and its budget is 10,240" in found.message


def test_all_mistakes_come_together_those_of_schedules_too(folder: Path) -> None:
    text = TEXT.replace("each(xs", "ech(ys").replace("max = 8", "mx = 8")
    text = text.replace('schedule chain on "default"', "schedule chian")
    assert {d.code for d in check(source(folder, text))} == {
        *("HR101", "HR105"),  # of the pipeline's body and parameters
        *("HR402", "HR416"),
    }


def test_a_check_needs_no_model_files_and_a_plan_does(tmp_path: Path) -> None:
    assert check(source(tmp_path)) != ()
    (tmp_path / "stages.py").write_text(STAGES)
    assert check(source(tmp_path)) == ()
    with pytest.raises(CompileError):
        compile_source(source(tmp_path))


def test_schedules_that_do_not_hold_are_checked_as_well(folder: Path) -> None:
    text = TEXT.replace("triple { batch", "tripel { batch")
    with pytest.raises(CompileError, match="HR401"):
        compile_source(source(folder, text), schedule="default")


def test_an_unknown_schedule_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(ScheduleError, match="there are default, server"):
        compile_source(source(folder), schedule="sever")


def test_several_schedules_are_fine_to_check_and_must_be_chosen_from_to_compile(
    folder: Path,
) -> None:
    text = TEXT.replace('on "default"', 'on "laptop"')
    assert check(source(folder, text)) == ()
    compile_source(source(folder, text), schedule="laptop")
    with pytest.raises(CompileError, match="HR409"):
        compile_source(source(folder, text))


def test_progress_counts_pipelines(folder: Path) -> None:
    told: list[tuple[int, int, str]] = []
    compile_source(
        source(folder), progress=lambda done, total, name: told.append((done, total, name))
    )
    assert told == [(0, 2, "chain"), (1, 2, "each"), (2, 2, "")]


@pytest.mark.slow
def test_blocks_nested_too_deeply_are_a_mistake(folder: Path) -> None:
    text = "pipeline p(x: f32, c: bool) -> (y: f32) {\n"
    text += "".join(f"    return y = x when x > {i}.0\n" for i in range(2000))
    text += "    return y = x\n}\n"
    assert "HR423" in [d.code for d in check(source(folder, text))]


def test_loading_a_plan_does_not_import_the_parser() -> None:
    program = "import sys, headrace.compiler.plan_file; sys.exit('lark' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_schedule_of_how_stages_are_served_reaches_the_plan(folder: Path) -> None:
    text = TEXT.replace(
        "triple { batch { max = 8, wait = 1ms }, device = sim }",
        "triple { batch { max = 8 }, warmup = on, cache = 1MiB, resources { dsp = 2 } }\n"
        "    double { warmup = on }\n"
        "    halve { isolate = on, instances = 2, queue { size = 4 } }\n"
        "    priority { levels = 3, default = 2 }\n"
        "    resources { dsp = 2 }",
    )
    plan = compile_source(source(folder, text), schedule="server")
    double, triple, halve = plan.segments[:3]
    assert isinstance(triple, ModelSegment)
    assert isinstance(double, ModelSegment)
    assert isinstance(halve, PythonSegment)
    assert triple.service == Service(cache=1 << 20, warmup=(1, 8), resources=(("dsp", 2),))
    assert double.service.warmup == (1,)
    assert (halve.service.isolation, halve.instances) == (Isolation(), 2)
    assert (halve.is_class, halve.queueing) == (False, Queueing(4))
    assert (plan.pipelines[0].priority, plan.resources) == (Priorities(3, 2), (("dsp", 2),))
    assert read(to_bytes(plan)) == plan


@pytest.mark.parametrize(
    ("resources", "at"),
    [("resources { dsp = 3 }", "dsp = 3"), ("", "dsp = 2")],
    ids=["two totals", "more than there is"],
)
def test_pipelines_share_what_there_is_of_a_resource(folder: Path, resources: str, at: str) -> None:
    text = TEXT.replace("device = sim }", "resources { dsp = 1 } }\n    resources { dsp = 1 }")
    text += (
        f'schedule each on "server" {{\n    triple {{ resources {{ dsp = 2 }} }}\n{resources}\n}}'
    )
    with pytest.raises(CompileError) as caught:
        compile_source(source(folder, text), schedule="server")
    (mistake,) = caught.value.diagnostics
    assert (mistake.code, mistake.primary.span.text) == ("HR406", at)
    assert [label.span.text for label in mistake.secondary] == ["dsp = 1"]
