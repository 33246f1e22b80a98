"""Decides per model or function where rows wait for each other, and says why.

What a schedule says holds. Where it says nothing and the model was measured, rows run together
when that makes them faster by `MARGIN`: those of one request, and those of several requests as
well when a row gains more than its way through a queue costs. Without a profile no queue stands,
and rows of one request share a run only in a pipeline that is declared `batch N`, whose caller
already sends them together: on a CPU batching loses for most models. Sizes that were measured go
into those of their neighbours (`agree_sizes.py`).
"""

from dataclasses import dataclass, replace
from typing import Final

from .agree_sizes import Agreed, agree_sizes
from .graph import FunctionCall, Graph, ModelCall, Node, StageSettings
from .policies import Batching, Service
from .policy_text import describe_batching
from .profile import ModelTimes, gain_text, seconds_text
from .rewrite import walk
from .stage_settings import calls_out, device_of, settings_of

MARGIN: Final = 1.1
"""How many times as fast rows must be in a batch: less may be chance, and delays the first row."""

QUEUE_SECONDS: Final = 100e-6
"""What a row's way through a queue costs: it changes threads, up to 80 us, and is sorted."""


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """`group` rows of one request may share a run without a queue; `why` is for explain."""

    batching: Batching | None
    group: int
    why: str


def batch_points(graph: Graph) -> dict[Node, BatchPoint]:
    """Return how rows meet at each model or function call."""
    points = {node: _alone(graph, node) for node in walk(graph.body) if calls_out(node)}
    if graph.profile is None:
        return points
    measured: dict[Node, ModelTimes] = {}
    given: dict[Node, int] = {}
    for node, point in points.items():
        if point.batching is None:
            continue
        times = _times(graph, node)
        if times is not None and settings_of(graph, node).batching is None:
            measured[node] = times
        else:
            given[node] = point.batching.maximum
    for node, agreed in agree_sizes(graph, measured, given, _pays).items():
        if agreed.by or agreed.against:
            points[node] = _agreed(measured[node], agreed)
    return points


def _agreed(times: ModelTimes, agreed: Agreed) -> BatchPoint:
    others = ", ".join(dict.fromkeys(f"`{one.stage}`" for one in (*agreed.by, *agreed.against)))
    why = f"to go with {others}" if agreed.by else f"goes with no batch of {others}"
    batching = Batching(agreed.rows)
    text = f"{describe_batching(batching)} ({gain_text(times)}; {why})"
    return BatchPoint(batching, agreed.rows, text)


def _alone(graph: Graph, node: Node) -> BatchPoint:
    """Return what would be best for a call, whatever its neighbours do."""
    settings = settings_of(graph, node)
    times = _times(graph, node)
    measured = f", {gain_text(times)}" if times is not None else ""
    if settings.batching is not None:
        batching = settings.batching
        why = f"{describe_batching(batching)} (schedule {graph.settings.name!r}{measured})"
        return BatchPoint(batching, _group(graph, node), why)
    if settings.batching_off:
        return BatchPoint(None, 1, f"batch off (schedule {graph.settings.name!r}{measured})")
    if not _can_batch(graph, node):
        return BatchPoint(None, 1, f"batch off ({_why_not(node)})")
    if times is not None:
        return _measured(times)
    group = _group(graph, node)
    if group > 1:
        why = f"rows of a request together, up to {group} (the pipeline is `batch {group}`)"
        return BatchPoint(None, group, why)
    why = "batch off (no schedule asks for it; on a CPU batching often loses)"
    return BatchPoint(None, 1, why)


def service_of(settings: StageSettings, point: BatchPoint) -> Service:
    """Return how a stage is served: `warmup = on` is a run of one row, and one of the most."""
    if not settings.warmed:
        return settings.service
    most = point.batching.maximum if point.batching is not None else point.group
    return replace(settings.service, warmup=tuple(sorted({1, most})))


def _measured(times: ModelTimes) -> BatchPoint:
    """Return what the figures of a model speak for."""
    best, figures = times.best, gain_text(times)
    if best is None or times.gain(best) < MARGIN:
        return BatchPoint(None, 1, f"batch off ({figures})")
    if not _pays(times.alone, best.seconds / best.rows):
        saved = times.alone - best.seconds / best.rows
        why = f"{figures}; {seconds_text(saved)} a row do not pay for a queue"
        return BatchPoint(None, best.rows, f"rows of a request together, up to {best.rows} ({why})")
    batching = Batching(best.rows)
    return BatchPoint(batching, best.rows, f"{describe_batching(batching)} ({figures})")


def _pays(alone: float, together: float) -> bool:
    """Whether a queue does for a row that takes so many seconds alone, and so many in a batch."""
    return alone >= together * MARGIN and alone - together >= QUEUE_SECONDS


def _times(graph: Graph, node: Node) -> ModelTimes | None:
    """Return what the model of a node took, when it could batch and was measured."""
    if graph.profile is None or not isinstance(node.kind, ModelCall):
        return None
    content = graph.model(node.kind.model).content
    if content is None or not _can_batch(graph, node):
        return None
    return graph.profile.model(content.digest, device_of(graph, node))


def _group(graph: Graph, node: Node) -> int:
    return graph.batch if graph.batch is not None and _can_batch(graph, node) else 1


def _can_batch(graph: Graph, node: Node) -> bool:
    match node.kind:
        case ModelCall(model=name):
            return graph.model(name).batches
        case FunctionCall(function=name):
            return graph.function(name).batched
        case _:
            return False


def _why_not(node: Node) -> str:
    if isinstance(node.kind, ModelCall):
        return "the model has no batch axis"
    return "the function takes one item"
