"""Engines on disk: one for each thing that decides what is built, whole or built again, and built
once however many want it."""

import multiprocessing
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.compiler.plan import ShapeRange
from headrace.compiler.policies import EngineBuild
from headrace.runtime.devices.cuda_driver import Gpu
from headrace.runtime.load_error import LoadError
from headrace.runtime.tensorrt.build import Built, Request
from headrace.runtime.tensorrt.cache import EngineCache, key_of
from headrace.runtime.tensorrt.opening import take_engine
from headrace.runtime.tensorrt.package import Package, described
from headrace.runtime.tensorrt.report import Report
from tests.runtime.tensorrt.engines import GPU, SCALED, scaled, segment_of
from tests.runtime.tensorrt.signatures import versions
from tests.runtime.tensorrt.stand_in import stand_in

RANGES = (ShapeRange("x", "x", (1, 1), (4, 4), (8, 16)),)
REQUEST = Request("m", "p.pipe:1:1", "a" * 64, RANGES, EngineBuild())
REPORT = Report("m", "TensorRT 10", (("relu", 1),), (("float", 1),), ("x 1",), 1, ("softmax s",))
BUILT = Built(b"engine\n of\n bytes", REPORT, None)


def package(version: str) -> Package:
    name = "tensorrt_rtx" if version.startswith("rtx") else "tensorrt"
    return described(stand_in(version), name)


def never() -> Built:
    raise AssertionError("it is there")


def test_a_key_changes_with_all_that_decides_what_is_built() -> None:
    old, new = package("10.3.0"), package("11.4.0.106")
    other = replace(RANGES[0], most=(8, 17))
    keys = [
        key_of(new, REQUEST, GPU),
        key_of(old, REQUEST, GPU),
        key_of(package("rtx-1.7.1.116"), REQUEST, None),
        key_of(new, replace(REQUEST, model="b" * 64), GPU),
        key_of(new, replace(REQUEST, ranges=(other,)), GPU),
        key_of(new, replace(REQUEST, settings=EngineBuild(level=3)), GPU),
        key_of(new, REQUEST, replace(GPU, name="NVIDIA Other")),
        key_of(new, REQUEST, replace(GPU, sm=87)),
        key_of(new, REQUEST, replace(GPU, driver=12080)),
    ]
    assert len(set(keys)) == len(keys)


def test_a_key_is_the_same_wherever_the_source_lies_and_whatever_the_stage_is_called() -> None:
    moved = replace(REQUEST, stage="other", place="elsewhere.pipe:9:9")
    new = package("11.4.0.106")
    assert key_of(new, moved, GPU) == key_of(new, REQUEST, GPU)
    portable = replace(REQUEST, settings=EngineBuild(hardware_compatible=True))
    assert key_of(new, portable, GPU) == key_of(new, portable, Gpu("NVIDIA Other", 120, 13020))


def test_what_was_built_is_found_whole_by_others(tmp_path: Path) -> None:
    first = EngineCache(tmp_path / "made").take("k", lambda: BUILT)
    second = EngineCache(tmp_path / "made").take("k", never)
    assert (first.fresh, second.fresh) == (True, False)
    assert second.engine == BUILT.engine
    assert second.report == REPORT
    assert (tmp_path / "made" / "k.engine").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("at", [0, 5, 40, 90, -1])
@pytest.mark.parametrize("cut", [True, False])
def test_an_entry_that_was_changed_or_cut_is_built_again(
    at: int, cut: bool, tmp_path: Path
) -> None:
    cache = EngineCache(tmp_path)
    cache.take("k", lambda: BUILT)
    path = tmp_path / "k.engine"
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content[:at] if cut else content)
    assert cache.find("k") is None
    assert cache.take("k", lambda: BUILT).fresh
    assert cache.take("k", never).engine == BUILT.engine


def test_a_build_that_fails_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    cache = EngineCache(tmp_path)

    def fail() -> Built:
        raise REQUEST.refused("no")

    with pytest.raises(LoadError):
        cache.take("k", fail)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
    assert cache.take("k", lambda: BUILT).fresh


def test_threads_that_want_one_engine_build_it_once(tmp_path: Path) -> None:
    began, built, found = threading.Barrier(6), list[int](), list[bytes]()

    def build() -> Built:
        built.append(1)
        return BUILT

    def want() -> None:
        cache = EngineCache(tmp_path)
        began.wait()
        found.append(cache.take("k", build).engine)

    threads = [threading.Thread(target=want) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (len(built), set(found)) == (1, {BUILT.engine})


def _want(folder: str, count: Any) -> None:
    def build() -> Built:
        with count.get_lock():
            count.value += 1
        return BUILT

    if EngineCache(Path(folder)).take("k", build).engine != BUILT.engine:
        raise AssertionError("another engine")


@pytest.mark.slow
def test_processes_that_want_one_engine_build_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    count = context.Value("i", 0)
    processes = [context.Process(target=_want, args=(str(tmp_path), count)) for _ in range(3)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
    assert [one.exitcode for one in processes] == [0, 0, 0]
    assert count.value == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    scaled(tmp_path / "m.onnx")
    segment, content = segment_of(tmp_path, SCALED)
    where = tmp_path / "m.onnx" / "engines"
    with pytest.raises(LoadError, match=r"stage `m`.*keeps no engine: Not a directory"):
        take_engine(package(versions()[0]), content, Request.of(segment), GPU, where)


def test_timings_are_kept_for_the_next_build_and_those_of_another_gpu_are_not_taken(
    tmp_path: Path,
) -> None:
    scaled(tmp_path / "m.onnx")
    segment, content = segment_of(tmp_path, SCALED)
    new, cache = package("11.4.0.106"), EngineCache(tmp_path)
    for level in (1, 2):
        request = replace(Request.of(segment), settings=EngineBuild(level=level))
        take_engine(new, content, request, GPU, tmp_path)
        assert cache.timings(new, GPU) == b"t" * level
    assert cache.timings(new, replace(GPU, sm=87)) is None
    cache.keep_timings(new, GPU, b"another version's")
    request = replace(Request.of(segment), settings=EngineBuild(level=3))
    take_engine(new, content, request, GPU, tmp_path)
    assert cache.timings(new, GPU) == b"t"


def test_full_tensorrt_is_not_asked_to_build_where_there_is_no_gpu(tmp_path: Path) -> None:
    scaled(tmp_path / "m.onnx")
    segment, content = segment_of(tmp_path, SCALED)
    new = package("11.4.0.106")
    with pytest.raises(LoadError, match="builds engines on the GPU that they are for"):
        take_engine(new, content, Request.of(segment), None, tmp_path)
    assert new.module.calls == []


def test_tensorrt_for_rtx_builds_where_there_is_none_and_keeps_one_for_all(tmp_path: Path) -> None:
    scaled(tmp_path / "m.onnx")
    segment, content = segment_of(tmp_path, SCALED)
    rtx = package("rtx-1.7.1.116")
    assert take_engine(rtx, content, Request.of(segment), None, tmp_path).fresh
    assert not take_engine(rtx, content, Request.of(segment), GPU, tmp_path).fresh
    assert not any(call.startswith("Runtime") for call in rtx.module.calls)
