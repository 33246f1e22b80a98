"""Builds the engine of a segment: parses its ONNX, says between which sizes it will run, and what
the schedule asks for.

What would make the builder fail, or do silently something else, is refused here first: inputs that
a profile does not know, sizes that the model does not have, shapes that are computed from values,
features that the version lacks. From TensorRT 10 on networks are typed as the model is.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ...compiler.plan import ModelSegment, ShapeRange
from ...compiler.policies import EngineBuild
from ..load_error import NO_ENGINE, LoadError
from .package import HEARD, OTHERWISE, Package
from .report import Report, describe

DEFAULT: Final = EngineBuild()
LEAVE: Final = "leave `backend` out, and ONNX Runtime runs it"
_SHOWN: Final = 700  # characters of what the builder says


@dataclass(frozen=True, slots=True)
class Request:
    """The engine that a segment wants: of the `model` of that digest, for sizes in `ranges`."""

    stage: str
    place: str
    model: str
    ranges: tuple[ShapeRange, ...]
    settings: EngineBuild

    @staticmethod
    def of(segment: ModelSegment) -> "Request":
        settings = segment.service.engine or DEFAULT
        place = str(segment.place)
        return Request(segment.name, place, segment.model, segment.ranges, settings)

    def placed(self, error: LoadError) -> LoadError:
        """Return an error with the stage and its place in front."""
        message = f"stage `{self.stage}`, {self.place}: {error.message}"
        return LoadError(error.code, message, error.help)

    def refused(self, why: str, help: str | None = None) -> LoadError:
        """Return the error of an engine that cannot be had, with stage and place."""
        return self.placed(LoadError(NO_ENGINE, why, help))


@dataclass(frozen=True, slots=True)
class Built:
    """The bytes of an engine, what is in it, and timings for the next build (None: none kept)."""

    engine: bytes
    report: Report
    timings: bytes | None


def check_features(package: Package, request: Request) -> None:
    """Raise LoadError where the schedule asks for what this version has not."""
    for key in wanted(request.settings):
        reason = package.lacking(key)
        if reason is not None:
            what = "`device = dla(n)`" if key == "dla" else f"`{key}` of `engine`"
            help = f"leave it out, {OTHERWISE}"
            raise request.refused(f"{package.title} does not take {what}: {reason}", help)


def wanted(settings: EngineBuild) -> Iterator[str]:
    """Yield the features that are asked for."""
    for key in ("level", "weight_budget", "dla"):
        if getattr(settings, key) is not None:
            yield key
    for key in ("refit", "version_compatible", "hardware_compatible"):
        if getattr(settings, key):
            yield key


def build(package: Package, content: bytes, request: Request, timings: bytes | None) -> Built:
    """Return the engine of a model; raises LoadError where there can be none."""
    check_features(package, request)
    heard: deque[str] = deque(maxlen=HEARD)
    module, logger = package.module, package.logger(heard)
    builder = module.Builder(logger)
    network = builder.create_network(_flags(package))
    parser = module.OnnxParser(network, logger)
    if not parser.parse(content):
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        told = "; ".join(dict.fromkeys(_parse_error(one) for one in errors))
        raise request.refused(f"{package.title} does not take the model: {told}", LEAVE)
    _check_inputs(network, request)
    config = builder.create_builder_config()
    _configure(package, builder, config, request)
    _add_profile(builder, config, request)
    cache = config.create_timing_cache(timings or b"") if package.dialect.timing else None
    if cache is not None and not config.set_timing_cache(cache, False):
        cache = config.create_timing_cache(b"")  # what was kept is of another version or GPU
        config.set_timing_cache(cache, False)
    report = describe(package, network, config, request)
    for dtype, flag in package.dialect.flags:
        if dtype in dict(report.precision):
            config.set_flag(getattr(module.BuilderFlag, flag))
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        told = "; ".join(dict.fromkeys(heard))[-_SHOWN:] or "it does not say why"
        raise request.refused(f"{package.title} builds no engine: {told}", LEAVE)
    kept = bytes(memoryview(cache.serialize())) if cache is not None else None
    return Built(bytes(memoryview(engine)), report, kept)


def _flags(package: Package) -> int:
    flags = package.module.NetworkDefinitionCreationFlag
    return sum(1 << int(getattr(flags, name)) for name in package.dialect.network)


def _parse_error(error: Any) -> str:  # Any: of an untyped module
    node = error.node_name() if hasattr(error, "node_name") else ""
    return f"{error.desc()}{f' (node {node})' if node else ''}"[:_SHOWN]


def _check_inputs(network: Any, request: Request) -> None:  # Any: of an untyped module
    """Raise LoadError where a profile and the network do not speak of the same inputs."""
    inputs = {one.name: one for one in (network.get_input(i) for i in range(network.num_inputs))}
    ranges = {one.input: one for one in request.ranges}
    listed = ", ".join(f"`{name}`" for name in inputs)
    for name in ranges.keys() - inputs.keys():
        raise request.refused(f"the model has no input `{name}`; it has {listed}")
    for name, one in inputs.items():
        if name not in ranges:
            raise request.refused(
                f"the plan says no sizes of the input `{name}`", "compile it again"
            )
        if one.is_shape_tensor:
            told = ranges[name].name
            why = f"the input `{told}` decides about sizes by its values, which are on the GPU"
            raise request.refused(f"{why} when the engine would have to know them", LEAVE)
        wrong = _misfit(tuple(one.shape), ranges[name])
        if wrong is not None:
            raise request.refused(
                f"the input `{ranges[name].name}` {wrong}", "see `sizes` of `engine`"
            )


def _misfit(shape: tuple[int, ...], range: ShapeRange) -> str | None:
    if len(shape) != len(range.least):
        return f"has {len(shape)} axes, and its sizes {len(range.least)}"
    for axis, (size, least, most) in enumerate(zip(shape, range.least, range.most, strict=True)):
        if size >= 0 and (least, most) != (size, size):
            said = least if least == most else f"{least} to {most}"
            return f"has {size} in axis {axis} of the file, and is to have {said}"
    return None


def _configure(
    package: Package,
    builder: Any,
    config: Any,
    request: Request,  # Any: of an untyped module
) -> None:
    module, settings = package.module, request.settings
    flag = module.BuilderFlag
    config.profiling_verbosity = module.ProfilingVerbosity.DETAILED
    if package.dialect.sharing:
        sharing = getattr(module.PreviewFeature, package.dialect.sharing)
        config.set_preview_feature(sharing, True)
    if settings.workspace is not None:
        config.set_memory_pool_limit(module.MemoryPoolType.WORKSPACE, settings.workspace)
    if settings.level is not None:
        config.builder_optimization_level = settings.level
    if settings.refit:
        config.set_flag(flag.REFIT)
    if settings.weight_budget is not None:
        config.set_flag(flag.WEIGHT_STREAMING)
    if settings.version_compatible:
        config.set_flag(flag.VERSION_COMPATIBLE)
    if settings.hardware_compatible:
        config.hardware_compatibility_level = module.HardwareCompatibilityLevel.AMPERE_PLUS
    if settings.dla is not None:
        if settings.dla >= builder.num_DLA_cores:
            cores = builder.num_DLA_cores
            why = f"`dla({settings.dla})` is not there: this machine has {cores or 'no'} DLA cores"
            raise request.refused(why, "name another, or a GPU such as `gpu(0)`")
        config.default_device_type = module.DeviceType.DLA
        config.DLA_core = settings.dla
        config.set_flag(flag.GPU_FALLBACK)


def _add_profile(builder: Any, config: Any, request: Request) -> None:  # Any: as above
    profile = builder.create_optimization_profile()
    for one in request.ranges:
        profile.set_shape(one.input, one.least, one.usual, one.most)
    if config.add_optimization_profile(profile) < 0:
        listed = ", ".join(map(str, request.ranges))
        raise request.refused(f"the builder does not take the sizes {listed}")
