"""Literals and figures of plans as text, one way for explain, its differences and pictures."""

import json
from collections import Counter
from collections.abc import Iterable

import numpy as np

from ..dsl.types import DType, Type
from ..stdlib.op import Literal
from .plan import MemoryPlan
from .policy_text import scaled
from .stage_settings import CPU


def literal_text(literal: "Literal | np.generic", type: Type | None = None) -> str:
    """Return a literal as the language would write it; long ones are shown by their type."""
    match literal:
        case None:
            return "none"
        case bool():
            return "true" if literal else "false"
        case int() | float():
            return repr(literal)
        case str() if len(literal) <= 40:
            return json.dumps(literal, ensure_ascii=False)
        case DType():
            return literal.value
        case tuple() if len(literal) <= 8:
            return f"[{', '.join(literal_text(item) for item in literal)}]"
        case np.ndarray() | np.generic() if np.size(literal) <= 8 and np.ndim(literal) <= 1:
            return str(literal.tolist()).replace("True", "true").replace("False", "false")
        case _:
            return f"<{type}>" if type is not None else "<...>"


def copies_text(crossings: Iterable[tuple[str, str]], *, mapped: bool = False) -> str:
    """Return how many copies there are from and to these devices, as `copies 1 in, 1 out`; `mapped`
    says that what goes in is written where the device reads it."""
    ways = Counter(map(_way, crossings))
    if not ways:
        return "no copies"
    into, out = f"{ways['in']} in", f"{ways['out']} out"
    between = f"{ways['between']} between, " if ways["between"] else ""
    if mapped:
        return f"mapped {into}, copies {between}{out}"
    return f"copies {into}, {between}{out}"


def _way(crossing: tuple[str, str]) -> str:
    origin, device = crossing
    if device == CPU:
        return "out"
    return "in" if origin == CPU else "between"


def peak_text(memory: MemoryPlan, *, alone: bool) -> str:
    """Return peak, budget and lower bound; `alone` says that there is no other device."""
    peak, unit = scaled(memory.peak)
    budget = ""
    if memory.budget is not None:
        most, other = scaled(memory.budget)
        budget = f" of {most}" if other == unit else f" of {most} {other}"
    bound, other = scaled(memory.lower_bound)
    bound = bound if other == unit else f"{bound} {other}"
    device = "" if alone else f"{memory.device} "
    return f"{device}{peak} {unit}{budget} (lower bound {bound})"
