"""Engines of a pipeline whose sizes nothing says: found when it is compiled, before anybody waits
for a builder."""

from collections.abc import Iterator, Mapping, Sequence

from ..dsl import ast
from ..dsl.diagnostic import CompileError, Diagnostic, Label
from ..dsl.source import Span
from ..dsl.types import Dim
from .batch_points import batch_points
from .engine_sizes import Unsized, graph_ranges
from .graph import Graph, ModelCall
from .plan import ENGINES
from .schedule_sizes import declared_names
from .stage_settings import backend_of, device_of, members_of


def check_engines(schedule: ast.Schedule, lowered: Graph, graph: Graph) -> None:
    """Raise CompileError for every stage on a GPU that wants an engine of unknown sizes. `lowered`
    has the stages as they are written, `graph` what has become of them."""
    found = {one.primary.span: one for one in _unsized(schedule, lowered, graph)}
    if found:
        raise CompileError(list(found.values()))


def _unsized(schedule: ast.Schedule, lowered: Graph, graph: Graph) -> Iterator[Diagnostic]:
    for node, point in batch_points(graph).items():
        if not isinstance(node.kind, ModelCall) or backend_of(graph, node) not in ENGINES:
            continue
        if not device_of(graph, node).startswith("gpu"):
            continue  # it is refused when it is loaded
        model = graph.model(node.kind.model)
        _, missing = graph_ranges(graph, model, point.batching, point.group)
        if missing:
            members = members_of(graph, node)
            names = declared_names(lowered, members)
            yield _diagnostic(node.stage, missing, names, _span(schedule, members))


def _diagnostic(
    stage: str, missing: Sequence[Unsized], names: Mapping[Dim, str], span: Span
) -> Diagnostic:
    named = dict.fromkeys(names[one.dim] for one in missing if one.dim in names)
    told = ", ".join(
        f"axis {one.axis} of `{one.input}` is `{names.get(one.dim, one.dim)}`" for one in missing
    )
    sizes = ", ".join(f"{name} = [32, 320, 1280]" for name in named)
    help = (
        f"say the least, the usual and the most, as in `engine {{ sizes {{ {sizes} }} }}`"
        if named
        else "give the size a name in the signature of the model, and say its `sizes`"
    )
    message = f"`{stage}` runs on TensorRT, which must be told between which sizes: {told}"
    return Diagnostic("HR425", message, Label(span, "no `sizes` are said"), help=help)


def _span(schedule: ast.Schedule, members: Sequence[str]) -> Span:
    named = {one.key.text: one.key.span for one in schedule.settings}
    return next((named[name] for name in members if name in named), schedule.span)
