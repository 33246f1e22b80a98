"""Engines on a simulated device: what the bindings of each version would be asked, and that values
get where they belong, in order, in memory that is theirs."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.runtime.instance import ModelStage
from headrace.runtime.load_error import LoadError
from headrace.runtime.stage import StageError, policy_of
from headrace.runtime.tensorrt.build import Request
from headrace.runtime.tensorrt.engine import Engine
from headrace.runtime.tensorrt.opening import take_engine
from headrace.runtime.tensorrt.session import EngineSession
from tests.runtime.tensorrt.engines import (
    GPU,
    NEWEST,
    SCALED,
    SIZES,
    VERSIONS,
    NumberedDevice,
    opened,
    package_of,
    read,
    run,
    scaled,
    segment_of,
    write,
)


@pytest.fixture
def device() -> Iterator[NumberedDevice]:
    opened = NumberedDevice()
    yield opened
    opened.close()


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


@pytest.mark.parametrize("version", [VERSIONS[0], NEWEST])
def test_while_one_context_is_in_use_another_runs(
    version: str, tmp_path: Path, device: NumberedDevice
) -> None:
    scaled(tmp_path / "m.onnx")
    segment, content = segment_of(tmp_path, SCALED)
    package, request = package_of(version), Request.of(segment)
    engine = Engine(package, take_engine(package, content, request, GPU, None).engine, request, GPU)
    session = EngineSession(engine, device, segment.ranges, segment.output_names)
    stage = ModelStage(segment, session, device, policy_of(segment), 0)
    with engine.context():
        y, _ = run(stage, device, np.ones(4, np.float32))
    assert read(device, y, 0).tolist() == [3] * 4
    session.close()


@pytest.mark.parametrize("version", [VERSIONS[0], NEWEST])
def test_runs_at_one_time_have_contexts_of_their_own(
    version: str, tmp_path: Path, device: NumberedDevice
) -> None:
    scaled(tmp_path / "m.onnx")
    stage, session = opened(*segment_of(tmp_path, SCALED), device, package_of(version))
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


def test_a_dtype_that_an_engine_has_not_is_refused_when_it_is_opened(
    tmp_path: Path, device: NumberedDevice
) -> None:
    shape = (TensorProto.INT64, ["N", "K"])
    write(tmp_path / "m.onnx", [helper.make_node("Neg", ["x"], ["y"])], {"x": shape}, {"y": shape})
    settings = "engine { sizes { K = [1, 4, 16] } }"
    segment, content = segment_of(tmp_path, "(x: i64[K]) -> (y: i64[K])", settings)
    said = r"stage `m`.*`x` is i64, and i32 in the engine of TensorRT 8.6.1"
    with pytest.raises(LoadError, match=said):
        opened(segment, content, device, package_of("8.6.1"))
    stage, session = opened(segment, content, device, package_of(NEWEST))
    (y,) = run(stage, device, np.array([1 << 40], np.int64))
    assert read(device, y, 0).tolist() == [-(1 << 40)]
    session.close()


@pytest.mark.parametrize("version", [one for one in VERSIONS if not one.startswith("rtx")])
def test_a_result_of_unknown_size_is_put_where_there_is_room_for_the_largest(
    version: str, tmp_path: Path, device: NumberedDevice
) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["at"]),
        helper.make_node("Transpose", ["at"], ["turned"]),
        helper.make_node("GatherND", ["x", "turned"], ["y"]),
    ]
    inputs, outputs = (TensorProto.FLOAT, ["K"]), (TensorProto.FLOAT, ["F"])
    write(tmp_path / "m.onnx", nodes, {"x": inputs}, {"y": outputs})
    settings = "engine { sizes { K = [1, 4, 16] } }"
    signature = "(x: f32[K]) -> (y: f32[F])"
    segment, content = segment_of(tmp_path, signature, settings, batch="batch none")
    stage, session = opened(segment, content, device, package_of(version))
    for x in ([0, 2, 0, 3], [0, 0], [1] * 16):
        (y,) = run(stage, device, np.array(x, np.float32))
        assert read(device, y, 0).tolist() == [one for one in x if one]
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
        stage, session = opened(segment, content, device, package, kept)
        y, _ = run(stage, device, np.ones(4, np.float32))
        assert read(device, y, 0).tolist() == [by] * 4
        session.close()
    assert package.module.calls.count("Builder.build_serialized_network") == 1
