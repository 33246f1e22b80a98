"""From a source to checked graphs under their schedules: all that can be said without a plan.

Nothing here imports the passes or a runtime, so that a check answers at once.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ..dsl import ast
from ..dsl.diagnostic import CompileError, Diagnostic, Label, Severity
from ..dsl.parse import parse
from ..dsl.recursion import MAX_BLOCKS, allow_depth
from ..dsl.source import Source, Span
from .choose_schedule import check_schedules, choose_schedule
from .graph import Graph, Region
from .lower import Lowered, lower
from .schedule import resolve_schedule

_PLAIN_DEPTH = 40  # blocks within blocks that every later part can follow on the default stack


def check(source: Source) -> tuple[Diagnostic, ...]:
    """Return all mistakes and warnings of a source; files of models are not needed."""
    try:
        return read_front(source, None, need_models=False, choose=False).diagnostics
    except CompileError as error:
        return error.diagnostics


def lowered(source: Source) -> tuple[Graph, ...]:
    """Return the pipelines of a source as written; raises CompileError with all mistakes.

    Files of models are not needed where their signatures are declared.
    """
    front = read_front(source, None, need_models=False, choose=False)
    errors = [one for one in front.diagnostics if one.severity is Severity.ERROR]
    if errors:
        raise CompileError(errors)
    return front.graphs


@dataclass(frozen=True, slots=True)
class Front:
    """Graphs under their schedules; `chosen` is the schedule of each pipeline that has one."""

    graphs: tuple[Graph, ...]
    schedules: tuple[ast.Schedule, ...]
    chosen: dict[str, ast.Schedule]
    diagnostics: tuple[Diagnostic, ...]


def read_front(
    source: Source,
    wanted: str | None,
    *,
    need_models: bool,
    choose: bool,
    stubbed: frozenset[str] = frozenset(),
) -> Front:
    """Parse and lower a source and resolve its schedules, of which `wanted` names the one to use.

    `choose` asks that it is clear which schedule of a pipeline holds; `need_models` and `stubbed`
    are those of `lower`. Raises CompileError with the mistakes of the syntax.
    """
    module = parse(source)
    with depth_reported(module.span):
        lowered = _lowered(module, source, need_models, stubbed)
    schedules = lowered.schedules
    pipelines = [item.name.text for item in module.items if isinstance(item, ast.Pipeline)]
    diagnostics = [*lowered.diagnostics, *check_schedules(schedules, pipelines)]
    chosen: dict[str, ast.Schedule] = {}
    graphs: list[Graph] = []
    for graph in lowered.graphs:
        diagnostics += _too_deep(graph.body)
        found = choose_schedule(schedules, graph.name, wanted)
        if isinstance(found, Diagnostic) and choose:
            diagnostics.append(found)
        for schedule in schedules:
            if schedule.pipeline.text == graph.name:
                settings, mistakes = resolve_schedule(schedule, graph)
                diagnostics += mistakes
                if schedule is found:
                    graph = replace(graph, settings=settings)
                    chosen[graph.name] = schedule
        graphs.append(graph)
    return Front(tuple(graphs), schedules, chosen, tuple(diagnostics))


def _lowered(
    module: ast.Module, source: Source, need_models: bool, stubbed: frozenset[str]
) -> Lowered:
    """Lower; calls that are inlined may make a graph deeper than the tree, so try twice."""
    try:
        return lower(module, source, need_models=need_models, stubbed=stubbed)
    except RecursionError:
        if not allow_depth():
            raise
    return lower(module, source, need_models=need_models, stubbed=stubbed)


@contextmanager
def depth_reported(span: Span) -> Generator[None, None, None]:
    """Turn running out of stack, which only a source can cause, into a mistake of the source."""
    try:
        yield
    except RecursionError:
        raise CompileError([_nesting(span)]) from None


def _too_deep(region: Region, depth: int = 0) -> list[Diagnostic]:
    """Report the first block that is nested deeper than later parts can follow, and let them."""
    if depth == _PLAIN_DEPTH:
        allow_depth()
    for node in region.nodes:
        if node.regions and depth == MAX_BLOCKS:
            return [_nesting(node.span)]
        for inner in node.regions:
            found = _too_deep(inner, depth + 1)
            if found:
                return found
    return []


def _nesting(span: Span) -> Diagnostic:
    return Diagnostic("HR423", "blocks nest too deeply to be compiled", Label(span))
