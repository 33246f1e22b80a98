"""What each version of TensorRT has, as tables: nothing else asks for a version.

A feature is there where all names that it needs are in the bindings; what is in the bindings and
yet does not work is listed with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Feature:
    """What a schedule may ask for; `needs` are names in the bindings, `without` says why it is not
    there in a package of that name though the names are."""

    key: str
    needs: tuple[str, ...]
    without: Mapping[str, str]


FEATURES: Final = (
    Feature("level", ("IBuilderConfig.builder_optimization_level",), {}),
    Feature("refit", ("BuilderFlag.REFIT", "OnnxParserRefitter.refit_from_bytes"), {}),
    Feature(
        "weight_budget",
        ("BuilderFlag.WEIGHT_STREAMING", "ICudaEngine.weight_streaming_budget_v2"),
        {},
    ),
    Feature(
        "version_compatible",
        ("BuilderFlag.VERSION_COMPATIBLE",),
        {"tensorrt_rtx": "it comes without the lean runtime that such an engine holds"},
    ),
    Feature(
        "hardware_compatible",
        ("HardwareCompatibilityLevel.AMPERE_PLUS", "IBuilderConfig.hardware_compatibility_level"),
        {"tensorrt_rtx": "its engines run on all GPUs that it knows without being asked"},
    ),
    Feature(
        "dla",
        ("IBuilderConfig.DLA_core", "IBuilderConfig.can_run_on_DLA", "Builder.num_DLA_cores"),
        {"tensorrt_rtx": "it is for GPUs alone"},
    ),
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a generation wants the same thing said."""

    network: tuple[str, ...]  # flags of a network, those that there are
    user_managed: bool  # contexts are given scratch by `set_device_memory`, which has a size
    timing: bool  # the builder keeps timings
    sharing: str = ""  # the preview feature that lets several contexts run one profile
    flags: tuple[tuple[str, str], ...] = ()  # dtypes of layers that are let in by a flag each


_OLD: Final = Dialect(
    ("EXPLICIT_BATCH",),
    user_managed=False,
    timing=True,
    sharing="PROFILE_SHARING_0806",
    flags=(("half", "FP16"), ("int8", "INT8")),
)
_TYPED: Final = Dialect(("STRONGLY_TYPED",), user_managed=True, timing=True)
_RTX: Final = Dialect(("STRONGLY_TYPED",), user_managed=True, timing=False)


def dialect(package: str, major: int) -> Dialect:
    """Return how a version is spoken to."""
    if package == "tensorrt_rtx":
        return _RTX
    return _OLD if major < 10 else _TYPED


def has(module: Any, path: str) -> bool:  # Any: an untyped module
    """Whether the bindings have a name such as `BuilderFlag.REFIT`."""
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
        if found is None:
            return False
    return True


def lacking(module: Any, package: str, version: str, key: str) -> str | None:
    """Return why a version has not what a schedule asks for; None where it has."""
    feature = next(one for one in FEATURES if one.key == key)
    if package in feature.without:
        return feature.without[package]
    absent = [name for name in feature.needs if not has(module, name)]
    return f"version {version} has no {absent[0]}" if absent else None
