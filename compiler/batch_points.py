"""Decides per model or function where rows wait for each other, and says why.

A queue stands only where a schedule asks for one. Without it, rows of one request share a run
only in a pipeline that is declared `batch N`, whose caller already sends them together.
"""

from dataclasses import dataclass

from .graph import FunctionCall, Graph, ModelCall, Node
from .plan import Batching, Queueing
from .stage_settings import settings_of


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """`group` rows of one request may share a run without a queue; `why` is for explain."""

    batching: Batching | None
    queueing: Queueing | None
    group: int
    why: str


def batch_point(graph: Graph, node: Node) -> BatchPoint:
    """Return how rows meet at a model or function call."""
    settings = settings_of(graph, node)
    queueing = settings.queueing and Queueing(
        settings.queueing.size, settings.queueing.timeout, settings.queueing.on_timeout
    )
    if settings.batching is not None:
        found = settings.batching
        batching = Batching(found.maximum, found.wait, found.prefer)
        why = f"{describe_batching(batching)} (schedule {graph.settings.name!r})"
        return BatchPoint(batching, queueing, _group(graph, node), why)
    if settings.batching_off:
        return BatchPoint(None, None, 1, f"batch off (schedule {graph.settings.name!r})")
    if not _can_batch(graph, node):
        return BatchPoint(None, None, 1, f"batch off ({_why_not(node)})")
    group = _group(graph, node)
    if group > 1:
        why = f"rows of a request together, up to {group} (the pipeline is `batch {group}`)"
        return BatchPoint(None, None, group, why)
    why = "batch off (no schedule asks for it; on a CPU batching often loses)"
    return BatchPoint(None, None, 1, why)


def describe_batching(batching: Batching) -> str:
    """Return a batch policy as the schedule would write it, in one line."""
    text = f"batch up to {batching.maximum}, wait {_milliseconds(batching.wait)}"
    return text + (f", prefer {list(batching.prefer)}" if batching.prefer else "")


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


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:g} ms"
