"""Metrics that models make up: families by name, each with a value for every set of labels.

A value belongs to the server and not to the worker that counts it: all of them, and those that are
started anew, count on.
"""

import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_MOST: Final = 10_000


class Refused(Exception):
    """What is asked of a metric cannot be done; the text is for the model's author."""


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(slots=True)
class Cell:
    """One value; of a histogram also how many were observed up to each of the `bounds`, and
    beyond."""

    value: float = 0.0
    bounds: tuple[float, ...] = ()
    counts: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Family:
    name: str
    description: str
    kind: Kind
    cells: dict[Labels, Cell] = field(default_factory=dict[Labels, Cell])


class CustomMetrics:
    """Calls may come from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._families: dict[str, Family] = {}

    def declare(self, name: str, description: str, kind: str) -> None:
        """Make a family, or find the one that is there; raises Refused."""
        if not _NAME.fullmatch(name):
            raise Refused(f"{name!r} is no name of a metric")
        with self._lock:
            known = self._families.get(name)
            if known is None:
                self._families[name] = Family(name, description, Kind(kind))
            elif known.kind is not Kind(kind):
                raise Refused(f"metric family {name!r} exists as a {known.kind.value}")

    def label(self, name: str, labels: Labels, bounds: Sequence[float] | None) -> None:
        """Make the value for some labels, or find it; raises Refused."""
        if any(not _NAME.fullmatch(label) or ":" in label for label, _ in labels):
            raise Refused(f"{dict(labels)} are no labels of a metric")
        with self._lock:
            family = self._family(name)
            if labels not in family.cells:
                if sum(len(one.cells) for one in self._families.values()) >= _MOST:
                    raise Refused(f"there are {_MOST} metrics already")
                sorted_bounds = tuple(sorted(bounds or ()))
                counts = [0] * (len(sorted_bounds) + 1)
                family.cells[labels] = Cell(0.0, sorted_bounds, counts)

    def change(self, name: str, labels: Labels, what: str, value: float) -> float:
        """Do to a value `what` is said, and return what it is then; raises Refused."""
        with self._lock:
            family = self._family(name)
            cell = family.cells.get(labels)
            if cell is None:
                raise Refused(f"metric family {name!r} has no metric with these labels")
            match family.kind, what:
                case ((Kind.COUNTER | Kind.GAUGE), "value"):
                    pass
                case Kind.COUNTER, "increment" if value >= 0:
                    cell.value += value
                case Kind.COUNTER, "increment":
                    raise Refused(f"counter {name!r} cannot be incremented by {value}")
                case Kind.GAUGE, "increment":
                    cell.value += value
                case Kind.GAUGE, "set":
                    cell.value = value
                case Kind.HISTOGRAM, "observe":
                    cell.value += value
                    at = sum(value > bound for bound in cell.bounds)
                    cell.counts[at] += 1
                case _:
                    raise Refused(f"a {family.kind.value} has no {what}")
            return cell.value

    def families(self) -> list[Family]:
        """Return what there is at this moment."""
        with self._lock:
            return [
                Family(
                    one.name,
                    one.description,
                    one.kind,
                    {
                        labels: Cell(cell.value, cell.bounds, [*cell.counts])
                        for labels, cell in one.cells.items()
                    },
                )
                for one in self._families.values()
            ]

    def _family(self, name: str) -> Family:
        found = self._families.get(name)
        if found is None:
            raise Refused(f"there is no metric family {name!r}")
        return found


def rendered(families: Sequence[Family]) -> bytes:
    """Return families in Prometheus' text format, each by the very name that its model gave it."""
    lines: list[str] = []
    for family in families:
        description = family.description.replace("\\", "\\\\").replace("\n", "\\n")
        lines.append(f"# HELP {family.name} {description}")
        lines.append(f"# TYPE {family.name} {family.kind.value}")
        for labels, cell in family.cells.items():
            if family.kind is not Kind.HISTOGRAM:
                lines.append(f"{family.name}{_labelled(labels)} {cell.value}")
                continue
            total = 0
            for bound, count in zip((*cell.bounds, math.inf), cell.counts, strict=True):
                total += count
                le = "+Inf" if bound == math.inf else str(bound)
                lines.append(f"{family.name}_bucket{_labelled((*labels, ('le', le)))} {total}")
            lines.append(f"{family.name}_count{_labelled(labels)} {total}")
            lines.append(f"{family.name}_sum{_labelled(labels)} {cell.value}")
    return "".join(f"{line}\n" for line in lines).encode()


def _labelled(labels: Labels) -> str:
    shown = [f'{name}="{_escaped(value)}"' for name, value in labels]
    return f"{{{','.join(shown)}}}" if shown else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
