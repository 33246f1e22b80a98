"""How a pipeline's deadline divides over its stages, by what they were found to take.

Of arms that run at once the longest counts, and each of them has that much of the deadline.
"""

from collections.abc import Iterable
from typing import Final

from .graph import Graph, Region, Together
from .profile import Profile, seconds_text
from .rewrite import model_calls
from .stage_settings import device_of

SMALLEST: Final = 0.02
"""The share below which a stage is among the others."""


def deadline_split(graph: Graph) -> str | None:
    """Return a line with each stage's share of the deadline; None when nothing is known of it."""
    took = dict(_times(graph))
    if graph.deadline is None or not sum(took.values()):
        return None
    apart = dict(took)
    total = _longest(graph.body, apart) + sum(apart.values())
    shares = {stage: graph.deadline * seconds / total for stage, seconds in took.items()}
    least = graph.deadline * SMALLEST
    said = [f"{stage} {seconds_text(one)}" for stage, one in shares.items() if one >= least]
    others = sum(one for one in shares.values() if one < least)
    said += [f"others {seconds_text(others)}"] if others else []
    over = " (over it)" if total > graph.deadline else ""
    head = f"deadline {seconds_text(graph.deadline)}, measured {seconds_text(total)}{over}"
    return " · ".join((head, *said))


def _longest(region: Region, took: dict[str, float]) -> float:
    """Return what a region takes, and take its stages out of `took`: a time is of all calls."""
    seconds = 0.0
    for node in region.nodes:
        seconds += took.pop(node.stage, 0.0)
        inner = [_longest(one, took) for one in node.regions]
        seconds += max(inner) if isinstance(node.kind, Together) else sum(inner)
    return seconds


def _times(graph: Graph) -> Iterable[tuple[str, float]]:
    """Return what stages took in a request, else what models take for a row each."""
    if graph.profile is None:
        return ()
    stages = graph.profile.of(graph.name)
    return [(one.stage, one.seconds) for one in stages] or _models(graph, graph.profile)


def _models(graph: Graph, profile: Profile) -> Iterable[tuple[str, float]]:
    for node, call in model_calls(graph.body):
        content = graph.model(call.model).content
        digest = content.digest if content is not None else ""
        times = profile.model(digest, device_of(graph, node))
        if times is not None:
            yield node.stage, times.alone
