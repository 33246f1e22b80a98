"""The backend: what a plan says of a segment becomes a stage that runs its engine.

The engine comes from the folder of engines where there is one, is refitted there with new weights
where the schedule lets it be, or else is built, which takes seconds to minutes.
"""

from pathlib import Path
from typing import cast

from ...compiler.plan import ModelSegment
from ...dsl.types import TensorType
from ..backend import Backend, Loading
from ..devices.cuda_driver import Gpu, find_gpu
from ..devices.device import Device
from ..devices.gpu import calls_to
from ..division import Share
from ..instance import ModelStage
from ..load_error import NO_DEVICE, LoadError
from ..stage import policy_of
from .build import LEAVE, Built, Request, build, check_features
from .cache import EngineCache, Entry, key_of
from .engine import Engine
from .package import OTHERWISE, Package, open_package
from .refit import refitted, skeleton
from .session import EngineSession


def engine_backend(name: str) -> Backend:
    """Return the backend whose library builds engines of a plan's ONNX segments."""

    def open_model(segment: ModelSegment, index: int, share: Share, loading: Loading) -> ModelStage:
        del share  # nothing of it runs on the processor
        request = Request.of(segment)
        if not segment.device.startswith("gpu"):
            message = f"`{name}` runs models on GPUs, and this one is on {segment.device}"
            help = "add `device = gpu(0)` to the stage's settings"
            raise request.placed(LoadError(NO_DEVICE, message, help))
        try:
            package = open_package(name)
            gpu = _gpu(package, segment.device)
            device = loading.device(segment.device)
        except LoadError as error:
            raise request.placed(error) from error
        check_features(package, request)

        def session() -> EngineSession:
            content = loading.blobs[segment.model]
            return open_session(package, segment, content, device, gpu, loading.engines)

        built = segment.service.engine
        key = (name, segment.model, segment.output_names, segment.device, segment.ranges, built)
        opened = loading.shared(("engine", *key), session)
        return ModelStage(segment, opened, device, policy_of(segment), index)

    return Backend(open_model, ("onnx",))


def open_session(
    package: Package,
    segment: ModelSegment,
    content: bytes,
    device: Device,
    gpu: Gpu,
    folder: Path | None,
) -> EngineSession:
    """Return what runs a segment on a device, with a kept engine or a new one."""
    request = Request.of(segment)
    with calls_to(device):
        entry = take_engine(package, content, request, gpu, folder)
        engine = Engine(package, entry.engine, request, gpu)
        _check_ports(segment, request, engine)
    return EngineSession(engine, device, segment.ranges, segment.output_names)


def _check_ports(segment: ModelSegment, request: Request, engine: Engine) -> None:
    """Raise LoadError where an engine has another dtype than its model, as TensorRT 8 has of
    i64."""
    signature = segment.signature
    for name, field in (
        *zip(segment.input_names, signature.params, strict=True),
        *zip(segment.output_names, signature.results, strict=True),
    ):
        port = engine.ports.get(name)
        declared = cast("TensorType", field.type).dtype  # engines take no others
        if port is None or port.dtype is not declared:
            found = "nowhere" if port is None else port.dtype.value
            engine.close()
            why = f"`{field.name}` is {declared.value}, and {found} in the engine"
            raise request.refused(f"{why} of {engine.package.title}", LEAVE)


def _gpu(package: Package, device: str) -> Gpu:
    gpu = find_gpu(int(device.partition(":")[2] or 0))
    if gpu is None:
        message = f"{package.title} runs on {device}, and CUDA's driver finds no such GPU"
        raise LoadError(NO_DEVICE, message, f"run it where there is one, {OTHERWISE}")
    return gpu


def take_engine(
    package: Package, content: bytes, request: Request, gpu: Gpu | None, folder: Path | None
) -> Entry:
    """Return the engine of a model: kept in a folder, where there is one, or built. `gpu` is the
    one of this machine, None where there is none."""
    if package.needs_gpu and gpu is None:
        why = f"{package.title} builds engines on the GPU that they are for, and there is none"
        raise request.refused(why, "let the machine that serves it build it: `headrace run`")
    bound = gpu if package.needs_gpu else None
    if folder is None:
        built = build(package, content, request, None)
        return Entry(built.engine, built.report, fresh=True)
    cache, key = EngineCache(folder), key_of(package, request, bound)
    try:
        return cache.take(key, lambda: _made(package, content, request, gpu, bound, cache))
    except OSError as error:
        raise request.refused(f"`{folder}` keeps no engine: {error.strerror}") from error


def _made(
    package: Package,
    content: bytes,
    request: Request,
    gpu: Gpu | None,
    bound: Gpu | None,
    cache: EngineCache,
) -> Built:
    """Return a new engine: a kept one with other weights, or one that is built."""
    check_features(package, request)
    alike = key_of(package, request, bound, skeleton(content)) if request.settings.refit else None
    before = cache.find(alike) if alike is not None else None
    if before is not None and gpu is not None:
        engine = Engine(package, before.engine, request, gpu)
        try:
            return Built(refitted(engine, content, request), before.report, None)
        finally:
            engine.close()
    built = build(package, content, request, cache.timings(package, bound))
    if built.timings is not None:
        cache.keep_timings(package, bound, built.timings)
    if alike is not None:
        cache.take(alike, lambda: built)
    return built
