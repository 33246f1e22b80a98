"""Builds the engines that a plan wants, before anybody loads it, and tells what is in them."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ...compiler.plan import ENGINES, ModelSegment, Plan
from ..devices import open_device
from ..devices.cuda_driver import Gpu, find_gpu
from ..devices.gpu import calls_to
from ..load_error import LoadError
from .build import Request
from .cache import EngineCache, Entry, key_of
from .opening import take_engine
from .package import Package, open_package

Progress = Callable[[int, int, str], None]
"""Called with how many engines are there, how many there will be, and the stage of the next."""


def build_ahead(plan: Plan, folder: Path, progress: Progress) -> list[Entry]:
    """Return an engine for each segment that wants one, from a folder or built into it; raises
    LoadError where this machine cannot build one."""
    segments, blobs = engine_segments(plan), dict(plan.blobs)
    found: list[Entry] = []
    for segment in segments:
        progress(len(found), len(segments), segment.name)
        package, gpu = _where(segment)
        content, request = blobs[segment.model], Request.of(segment)
        with _built_on(segment) if package.needs_gpu and gpu is not None else nullcontext():
            found.append(take_engine(package, content, request, gpu, folder))
    progress(len(found), len(segments), "")
    return found


def kept(plan: Plan, folder: Path) -> Iterator[tuple[ModelSegment, Entry | None]]:
    """Yield each segment that wants an engine, with what this machine has kept of it."""
    cache = EngineCache(folder)
    for segment in engine_segments(plan):
        package, gpu = _where(segment)
        bound = gpu if package.needs_gpu else None
        yield segment, cache.find(key_of(package, Request.of(segment), bound))


def engine_segments(plan: Plan) -> list[ModelSegment]:
    """Return the segments of which engines are built, each engine once."""
    found = {
        (one.backend, one.model, one.ranges, one.service.engine): one
        for one in plan.segments
        if isinstance(one, ModelSegment) and one.backend in ENGINES
    }
    return list(found.values())


def _where(segment: ModelSegment) -> tuple[Package, Gpu | None]:
    number = segment.device.partition(":")[2]
    try:
        return open_package(segment.backend), find_gpu(int(number or 0))
    except LoadError as error:
        raise Request.of(segment).placed(error) from error


@contextmanager
def _built_on(segment: ModelSegment) -> Generator[None]:
    """Let a library that builds for the GPU that this thread is on build for a segment's."""
    if segment.device == "gpu:0":
        yield
        return
    device = open_device(segment.device)
    try:
        with calls_to(device):
            yield
    finally:
        device.close()
