"""Engines on a simulated device: what the bindings of each version would be asked, and that values
get where they belong, in order, in memory that is theirs."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.compiler.plan import ModelSegment, ShapeRange
from headrace.compiler.policies import EngineBuild
from headrace.runtime.devices.device import View
from headrace.runtime.devices.sim import SimDevice, SimStream
from headrace.runtime.instance import ModelStage
from headrace.runtime.load_error import LoadError
from headrace.runtime.metrics import StageCell
from headrace.runtime.rows import Rows
from headrace.runtime.stage import StageError, policy_of
from headrace.runtime.tensorrt.build import Request
from headrace.runtime.tensorrt.driver import Gpu
from headrace.runtime.tensorrt.engine import Engine
from headrace.runtime.tensorrt.opening import take_engine
from headrace.runtime.tensorrt.package import Package, described
from headrace.runtime.tensorrt.session import EngineSession
from tests.runtime.tensorrt.signatures import versions
from tests.runtime.tensorrt.stand_in import stand_in

GPU = Gpu("NVIDIA Stand-in", 90, 13000)
VERSIONS = versions()
NEWEST = VERSIONS[-2]

PIPE = """
model m = onnx "m.onnx" {signature}

pipeline p{signature} {{
    {body}
}}

schedule p {{
    m {{ device = gpu(0), backend = tensorrt, {settings} }}
}}
"""


class NumberedStream(SimStream):
    """A stream with an address, as libraries want one."""

    @property
    def pointer(self) -> int:
        return self.number


class NumberedDevice(SimDevice):
    """The simulated device with such streams; new memory is poisoned, stray reads die."""

    def stream(self) -> NumberedStream:
        return NumberedStream(self, next(self._numbers))


@pytest.fixture
def device() -> Iterator[NumberedDevice]:
    opened = NumberedDevice()
    yield opened
    opened.close()


def write(path: Path, nodes: Sequence[Any], inputs: Any, outputs: Any, weights: Any = ()) -> None:
    def values(named: Any) -> list[Any]:
        return [helper.make_tensor_value_info(n, t, dims) for n, (t, dims) in named.items()]

    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), list(weights))
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path.write_bytes(model.SerializeToString())


def scaled(path: Path, by: float = 3.0) -> None:
    """Write a model that gives each row of x, times a weight, and its half."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [by])
    half = helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5])
    shape = (TensorProto.FLOAT, ["N", "K"])
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["y"]),
        helper.make_node("Mul", ["y", "half"], ["z"]),
    ]
    write(path, nodes, {"x": shape}, {"y": shape, "z": shape}, [weight, half])


SCALED = "(x: f32[K]) -> (y: f32[K], z: f32[K])"
SIZES = "batch { max = 8, prefer = [4] }, engine { sizes { K = [1, 4, 16] } }"


def segment_of(folder: Path, signature: str, settings: str = SIZES) -> tuple[ModelSegment, bytes]:
    """Return the segment of a model in a folder, and the bytes that it runs."""
    names = [part.split(":")[0].strip() for part in signature.split("-> (")[1].split(", ")]
    names = [name for name in names if name.isidentifier()]
    given = [part.split(":")[0] for part in signature.split(")")[0].strip("(").split(", ")]
    call = f"{', '.join(names)} = m({', '.join(one for one in given if one.isidentifier())})"
    returned = ", ".join(f"{name} = {name}" for name in names)
    body = f"{call}\n    return {returned}"
    path = folder / "p.pipe"
    path.write_text(PIPE.format(signature=signature, body=body, settings=settings))
    plan = headrace.compile(path).plan
    (segment,) = plan.segments
    assert isinstance(segment, ModelSegment)
    assert segment.backend == "tensorrt"
    return segment, plan.blob(segment.model)


def package_of(version: str, **settings: Any) -> Package:
    name = "tensorrt_rtx" if version.startswith("rtx") else "tensorrt"
    return described(stand_in(version, **settings), name)


def opened(
    segment: ModelSegment, content: bytes, device: NumberedDevice, package: Package
) -> tuple[ModelStage, EngineSession]:
    request = Request.of(segment)
    entry = take_engine(package, content, request, GPU, None)
    engine = Engine(package, entry.engine, request, GPU)
    session = EngineSession(engine, device, segment.ranges, segment.output_names)
    return ModelStage(segment, session, device, policy_of(segment), 0), session


def run(stage: ModelStage, device: NumberedDevice, *rows: np.ndarray[Any, Any]) -> list[Rows]:
    stream = device.stream()
    views: list[Any] = [device.upload(row, "m", stream) for row in rows]
    return stage.run([Rows.of(views)], len(views), StageCell())


def read(device: NumberedDevice, rows: Rows, row: int) -> Any:
    view = rows.item(row)
    assert isinstance(view, View)
    return device.download(view, "m", device.stream())


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_runs_rows_together_in_place_and_waits_for_nothing(
    version: str, tmp_path: Path, device: NumberedDevice
) -> None:
    scaled(tmp_path / "m.onnx")
    stage, session = opened(*segment_of(tmp_path, SCALED), device, package_of(version))
    rows = [np.arange(4, dtype=np.float32) + number for number in range(3)]
    before = device.ledger
    y, z = run(stage, device, *rows)
    after = device.ledger
    assert (after.h2d - before.h2d, after.d2h, after.syncs) == (3, 0, 0)
    for number, row in enumerate(rows):
        assert np.array_equal(read(device, y, number), row * 3)
        assert np.array_equal(read(device, z, number), row * 1.5)
    session.close()


def test_what_runs_steadily_allocates_nothing_and_shares_its_scratch(
    tmp_path: Path, device: NumberedDevice
) -> None:
    scaled(tmp_path / "m.onnx")
    segment, content = segment_of(tmp_path, SCALED)
    stages = [opened(segment, content, device, package_of(NEWEST)) for _ in range(3)]
    row = np.ones(16, np.float32)
    for stage, _ in stages:
        run(stage, device, row)
    before = device.ledger
    for _ in range(5):
        for stage, _ in stages:
            run(stage, device, row)
    assert device.ledger.allocations == before.allocations
    assert device.ledger.held_bytes < 3 * 1000  # of three scratches, had they been their own
    for _, session in stages:
        session.close()


def test_runs_at_one_time_have_contexts_of_their_own(
    tmp_path: Path, device: NumberedDevice
) -> None:
    scaled(tmp_path / "m.onnx")
    stage, session = opened(*segment_of(tmp_path, SCALED), device, package_of(NEWEST))
    wrong: list[object] = []

    def call(number: int) -> None:
        for turn in range(20):
            row = np.full(1 + number, number * 100 + turn, np.float32)
            y, _ = run(stage, device, row)
            if not np.array_equal(found := read(device, y, 0), row * 3):
                wrong.append((number, turn, found))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
    session.close()


@pytest.mark.parametrize("version", [one for one in VERSIONS if not one.startswith("rtx")])
def test_a_result_of_unknown_size_is_put_where_there_is_room_for_the_largest(
    version: str, tmp_path: Path, device: NumberedDevice
) -> None:
    node = helper.make_node("NonZero", ["x"], ["at"])
    inputs, outputs = (TensorProto.FLOAT, ["K"]), (TensorProto.INT64, [1, "F"])
    write(tmp_path / "m.onnx", [node], {"x": inputs}, {"at": outputs})
    settings = "engine { sizes { K = [1, 4, 16] } }"
    segment, content = segment_of(tmp_path, "(x: f32[K]) -> (at: i64[1, F])", settings)
    stage, session = opened(segment, content, device, package_of(version))
    for x in ([0, 2, 0, 3], [0, 0], [1] * 16):
        (at,) = run(stage, device, np.array(x, np.float32))
        assert np.array_equal(read(device, at, 0), np.nonzero(np.array(x)))
    session.close()


def test_a_result_that_decides_about_sizes_comes_from_the_host(
    tmp_path: Path, device: NumberedDevice
) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Neg", ["x"], ["y"])]
    outputs = {"shape": (TensorProto.INT64, [2]), "y": (TensorProto.FLOAT, ["K", "L"])}
    write(tmp_path / "m.onnx", nodes, {"x": (TensorProto.FLOAT, ["K", "L"])}, outputs)
    settings = "engine { sizes { K = [1, 4, 16], L = [1, 4, 16] } }"
    signature = "(x: f32[K, L]) -> (shape: i64[2], y: f32[K, L])"
    stage, session = opened(*segment_of(tmp_path, signature, settings), device, package_of(NEWEST))
    shape, y = run(stage, device, np.ones((3, 5), np.float32))
    assert read(device, shape, 0).tolist() == [3, 5]
    assert np.array_equal(read(device, y, 0), -np.ones((3, 5)))
    session.close()


def test_sizes_that_the_engine_was_not_built_for_fail_by_name_and_the_next_run_works(
    tmp_path: Path, device: NumberedDevice
) -> None:
    scaled(tmp_path / "m.onnx")
    stage, session = opened(*segment_of(tmp_path, SCALED), device, package_of(NEWEST))
    with pytest.raises(
        StageError, match=r"`x` has 17 in axis 1, and its engine is built for 1 to 16"
    ):
        run(stage, device, np.ones(17, np.float32))
    y, _ = run(stage, device, np.ones(16, np.float32))
    assert np.array_equal(read(device, y, 0), np.full(16, 3))
    session.close()
    with pytest.raises(Exception, match="the engine was closed"):
        run(stage, device, np.ones(16, np.float32))


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        ("IExecutionContext.set_input_shape", "`x` cannot be"),
        ("IExecutionContext.set_tensor_address", "cannot lie where it does"),
        ("IExecutionContext.execute_async_v3", "TensorRT does not say why"),
    ],
)
def test_what_the_library_refuses_fails_the_rows(
    fails: str, said: str, tmp_path: Path, device: NumberedDevice
) -> None:
    scaled(tmp_path / "m.onnx")
    package = package_of(NEWEST, fails={fails})
    stage, session = opened(*segment_of(tmp_path, SCALED), device, package)
    with pytest.raises(StageError, match=said):
        run(stage, device, np.ones(4, np.float32))
    session.close()


def test_an_engine_of_another_version_is_refused_with_what_the_library_says(
    tmp_path: Path,
) -> None:
    scaled(tmp_path / "m.onnx")
    segment, content = segment_of(tmp_path, SCALED)
    request = Request.of(segment)
    built = take_engine(package_of(VERSIONS[1]), content, request, GPU, None)
    with pytest.raises(LoadError, match=r"stage `m`.*the engine is of 10.3.0") as caught:
        Engine(package_of(NEWEST), built.engine, request, GPU)
    assert caught.value.code == "HR514"


def test_new_weights_are_put_into_the_engine_that_is_kept(
    tmp_path: Path, device: NumberedDevice
) -> None:
    settings = SIZES.replace("engine { ", "engine { refit = on, ")
    package, kept = package_of(NEWEST), tmp_path / "engines"
    for by in (3.0, 5.0):
        scaled(tmp_path / "m.onnx", by)
        segment, content = segment_of(tmp_path, SCALED, settings)
        entry = take_engine(package, content, Request.of(segment), GPU, kept)
        engine = Engine(package, entry.engine, Request.of(segment), GPU)
        session = EngineSession(engine, device, segment.ranges, segment.output_names)
        stage = ModelStage(segment, session, device, policy_of(segment), 0)
        y, _ = run(stage, device, np.ones(4, np.float32))
        assert read(device, y, 0).tolist() == [by] * 4
        session.close()
    assert package.module.calls.count("Builder.build_serialized_network") == 1


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
