"""What a plan is compiled for: a machine that need not be here, told by a file of `targets/`.

A target says which devices there are, how much memory, and whether GPU and host share it. It never
changes what a pipeline gives: a plan that its target cannot run is refused (`check_target.py`), and
where memory is shared what comes from the host is planned to be mapped and not copied.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ..dsl.diagnostic import Refusal
from ..dsl.nearest import nearest


class TargetError(Refusal):
    """There is no target of that name (HR427)."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU: its compute capability as in "87", its `memory` in bytes (None: the host's, or not
    told) and how many DLA cores it has."""

    product: str
    sm: str
    memory: int | None
    dla: int


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of machine. `machine` is as `platform.machine()` has it; `memory` is the host's, in
    bytes, None where it is not told; with `unified` it is the GPU's too."""

    name: str
    summary: str
    machine: str
    memory: int | None
    unified: bool
    gpus: tuple[Gpu, ...]

    def __str__(self) -> str:
        gpus = [f"gpu({i}) {one.product}, sm_{one.sm}" for i, one in enumerate(self.gpus)]
        dla = sum(one.dla for one in self.gpus)
        told = [self.machine, *gpus, *([f"{dla} DLA cores"] if dla else [])]
        if self.memory is not None:
            shared = ", which the GPU shares" if self.unified else ""
            told.append(f"{_gib(self.memory)} of memory{shared}")
        told += [f"{_gib(one.memory)} on the GPU" for one in self.gpus if one.memory is not None]
        return f"{self.name} ({self.summary}): {', '.join(told)}"

    def memory_of(self, device: str) -> int | None:
        """Return how much memory a device has of its own; None where that is not told, or shared
        with the host."""
        kind, _, index = device.partition(":")
        if kind == "cpu":
            return self.memory
        return self.gpus[int(index)].memory if kind == "gpu" else None


def target_names() -> list[str]:
    folder = files(__spec__.parent).joinpath("targets")
    return sorted(
        one.name.removesuffix(".toml") for one in folder.iterdir() if one.name.endswith(".toml")
    )


def load_target(name: str) -> Target:
    """Return a target by its name; raises TargetError with the nearest one."""
    known = target_names()
    if name not in known:
        meant = nearest(name, known)
        raise TargetError(
            "HR427",
            f"there is no target `{name}`; there are {', '.join(known)}",
            f"did you mean `{meant}`?" if meant else None,
        )
    text = files(__spec__.parent).joinpath("targets", f"{name}.toml").read_text("utf-8")
    return _target(name, tomllib.loads(text))


def _target(name: str, told: Mapping[str, Any]) -> Target:  # Any: TOML, held to the tests
    gpus = tuple(
        Gpu(one["product"], one["sm"], _bytes(one.get("memory_gib")), one["dla"])
        for one in told.get("gpu", ())
    )
    memory, unified = _bytes(told.get("memory_gib")), bool(told.get("unified", False))
    return Target(name, told["summary"], told["machine"], memory, unified, gpus)


def _bytes(gib: float | None) -> int | None:
    return None if gib is None else int(gib * (1 << 30))


def _gib(count: int) -> str:
    return f"{count / (1 << 30):g} GiB"
