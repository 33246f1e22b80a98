"""What an export target is: a pure function from a plan to the files of a folder.

One a file in `targets/`, with a `TARGET`; there is no list of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules

from ..compiler.plan import Plan
from . import targets


class ExportError(Exception):
    """The plan cannot be exported so; `help` says what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:
        self.message, self.help = message, help
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Option:
    """An option of one target: `--name VALUE`. `accepts` are the values it may have (none: any)."""

    name: str
    default: str
    help: str
    accepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What is exported: a plan, the stem of its file, and each option of the target."""

    plan: Plan
    name: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Export:
    """The files by their path in the folder, and what is worth saying of them, a line each."""

    files: Mapping[str, bytes]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a plan can go. `make` raises ExportError; it writes nothing."""

    name: str
    summary: str
    make: Callable[[Subject], Export]
    options: tuple[Option, ...] = ()

    def defaults(self) -> dict[str, str]:
        return {one.name: one.default for one in self.options}


def all_targets() -> Mapping[str, Target]:
    """Return each target by its name."""
    names = sorted(one.name for one in iter_modules(targets.__path__))
    found: list[Target] = [import_module(f"{targets.__name__}.{name}").TARGET for name in names]
    return {one.name: one for one in found}
