"""What the library is asked for: the settings of a schedule, or a refusal with the reason; nothing
that the model does not have."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import ShapeRange
from headrace.compiler.policies import EngineBuild
from headrace.runtime.load_error import LoadError
from headrace.runtime.tensorrt.build import Request
from headrace.runtime.tensorrt.engine import Engine
from headrace.runtime.tensorrt.opening import take_engine
from tests.runtime.tensorrt.engines import (
    GPU,
    NEWEST,
    SCALED,
    VERSIONS,
    package_of,
    scaled,
    segment_of,
    write,
)


def wanted(build: EngineBuild) -> list[str]:
    return [one for one in EngineBuild.__slots__ if getattr(build, one) not in (None, False)]


FLAGS: list[tuple[EngineBuild, list[str]]] = [
    (EngineBuild(refit=True), ["BuilderFlag.REFIT"]),
    (EngineBuild(weight_budget=1 << 20), ["BuilderFlag.WEIGHT_STREAMING"]),
    (EngineBuild(version_compatible=True), ["BuilderFlag.VERSION_COMPATIBLE"]),
    (EngineBuild(workspace=1 << 30), [f"MemoryPoolType.WORKSPACE {1 << 30}"]),
    (EngineBuild(dla=1), ["BuilderFlag.GPU_FALLBACK"]),
    (EngineBuild(level=5, hardware_compatible=True), []),
]
LACKING = {
    ("8.6.1", "refit"): "has no OnnxParserRefitter.refit_from_bytes",
    ("8.6.1", "weight_budget"): "has no BuilderFlag.WEIGHT_STREAMING",
    ("rtx", "version_compatible"): "without the lean runtime",
    ("rtx", "hardware_compatible"): "without being asked",
    ("rtx", "dla"): "it is for GPUs alone",
}


@pytest.mark.parametrize(("build", "flags"), FLAGS, ids=[wanted(one)[0] for one, _ in FLAGS])
@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_is_told_what_the_schedule_says_or_refuses_it_with_the_reason(
    version: str, build: EngineBuild, flags: list[str], tmp_path: Path
) -> None:
    scaled(tmp_path / "m.onnx")
    segment, content = segment_of(tmp_path, SCALED)
    request = replace(Request.of(segment), settings=build)
    package = package_of(version, dla_cores=2)
    short = "rtx" if version.startswith("rtx") else version
    reasons = [LACKING[short, key] for key in wanted(build) if (short, key) in LACKING]
    if reasons:
        with pytest.raises(LoadError, match=f"stage `m`.*{reasons[0]}"):
            take_engine(package, content, request, GPU, None)
        return
    entry = take_engine(package, content, request, GPU, None)
    assert all(f'"{flag}"' in entry.engine.decode(errors="replace") for flag in flags)
    Engine(package, entry.engine, request, GPU).close()


@pytest.mark.parametrize(("version", "let_in"), [(VERSIONS[0], True), (NEWEST, False)])
def test_halves_are_let_in_where_the_network_is_not_typed_as_the_model_is(
    version: str, let_in: bool, tmp_path: Path
) -> None:
    shape = (TensorProto.FLOAT16, ["N", "K"])
    write(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, {"y": shape})
    segment, content = segment_of(tmp_path, "(x: f16[K]) -> (y: f16[K])")
    entry = take_engine(package_of(version), content, Request.of(segment), GPU, None)
    assert entry.report.precision == (("half", 1),)
    assert (b"BuilderFlag.FP16" in entry.engine) == let_in


def test_a_dla_takes_what_it_can_and_what_it_cannot_is_counted(tmp_path: Path) -> None:
    shape = (TensorProto.FLOAT, ["N", "K"])
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Softmax", ["a"], ["y"], name="last"),
    ]
    write(tmp_path / "m.onnx", nodes, {"x": shape}, {"y": shape})
    segment, content = segment_of(tmp_path, "(x: f32[K]) -> (y: f32[K])")
    request = replace(Request.of(segment), settings=EngineBuild(dla=1))
    entry = take_engine(package_of(NEWEST, dla_cores=2), content, request, GPU, None)
    assert (entry.report.dla, entry.report.fallbacks) == (1, ("softmax last",))
    assert "1 layers, 1 fall back to the GPU" in str(entry.report)
    with pytest.raises(LoadError, match=r"`dla\(1\)` is not there: this machine has no DLA cores"):
        take_engine(package_of(NEWEST), content, request, GPU, None)


def test_a_model_that_the_parser_refuses_is_named_with_what_it_says(tmp_path: Path) -> None:
    shape = (TensorProto.FLOAT, ["N", "K"])
    write(tmp_path / "m.onnx", [helper.make_node("Erf", ["x"], ["y"])], {"x": shape}, {"y": shape})
    segment, content = segment_of(tmp_path, "(x: f32[K]) -> (y: f32[K])")
    with pytest.raises(LoadError, match=r"stage `m`.*no importer for Erf") as caught:
        take_engine(package_of(NEWEST), content, Request.of(segment), GPU, None)
    assert caught.value.help is not None


Change = Callable[[tuple[ShapeRange, ...]], tuple[ShapeRange, ...]]


def no_range(_given: tuple[ShapeRange, ...]) -> tuple[ShapeRange, ...]:
    return ()


def one_range_more(given: tuple[ShapeRange, ...]) -> tuple[ShapeRange, ...]:
    return (*given, replace(given[0], input="v"))


def an_axis_less(given: tuple[ShapeRange, ...]) -> tuple[ShapeRange, ...]:
    return (replace(given[0], least=(1,)),)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_range, "the plan says no sizes of the input `x`"),
        (one_range_more, "the model has no input `v`; it has `x`"),
        (an_axis_less, "the input `x` has 2 axes, and its sizes 1"),
    ],
)
def test_profiles_of_other_inputs_are_refused_before_the_builder(
    change: Change, said: str, tmp_path: Path
) -> None:
    scaled(tmp_path / "m.onnx")
    segment, content = segment_of(tmp_path, SCALED)
    package = package_of(NEWEST)
    request = Request.of(segment)
    changed = replace(request, ranges=change(request.ranges))
    with pytest.raises(LoadError, match=said):
        take_engine(package, content, changed, GPU, None)
    assert "Builder.build_serialized_network" not in package.module.calls
