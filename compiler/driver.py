"""From a source to a plan: parse, lower, schedule, optimise, place, plan. Mistakes come together.

`check` stops after the schedules and needs no model files where signatures are declared.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TypeAlias

from ..dsl import ast
from ..dsl.diagnostic import CompileError, Diagnostic, Label, Severity
from ..dsl.parse import parse
from ..dsl.source import Source, Span
from .budgets import check_budgets
from .choose_schedule import check_schedules, check_wanted, choose_schedule
from .explain import FIRST, LAST, explain_plan
from .explain_graph import explain_graph
from .graph import Graph, Region
from .graph_pass import PassContext, Phase
from .lower import lower
from .memory import plan_memory
from .optimize import load_passes, optimize
from .places import place_of
from .plan import Declined, MemoryPlan, PipelinePlan, Plan
from .planner import plan_pipeline
from .schedule import resolve_schedule
from .segments import Segments
from .verify_plan import verify_plan

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with how many pipelines are compiled, how many there are, and what comes next."""

DEEPEST = 80  # blocks within blocks; what every later part can follow on the default stack


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan, and what is worth saying about its sources although it could be made."""

    plan: Plan
    warnings: tuple[Diagnostic, ...]


def check(source: Source) -> tuple[Diagnostic, ...]:
    """Return all mistakes and warnings of a source; files of models are not needed."""
    try:
        return _front(source, None, need_models=False).diagnostics
    except CompileError as error:
        return error.diagnostics


def compile_source(
    source: Source,
    *,
    schedule: str | None = None,
    optimise: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Return the plan of a source.

    `schedule` names the one that holds; with `optimise` False nothing is simplified or fused.
    Raises CompileError with every mistake of the phase that found one, and ScheduleError when no
    schedule has the name.
    """
    compiled = compile_with_warnings(
        source, schedule=schedule, optimise=optimise, progress=progress
    )
    return compiled.plan


def compile_with_warnings(
    source: Source,
    *,
    schedule: str | None = None,
    optimise: bool = True,
    progress: Progress | None = None,
) -> Compiled:
    """Like `compile_source`, with the warnings beside the plan."""
    front = _front(source, schedule, need_models=True)
    errors = [d for d in front.diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise CompileError(errors)
    check_wanted(front.schedules, schedule)
    back = _Back(source, optimise, progress or _silent, len(front.graphs))
    for graph in front.graphs:
        with _depth_reported(graph.span):
            back.add(graph, front.chosen.get(graph.name))
    return Compiled(back.finish(), (*front.diagnostics, *back.warnings))


def _silent(_done: int, _total: int, _name: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class _Front:
    """Graphs under their schedules; `chosen` is the schedule of each pipeline that has one."""

    graphs: tuple[Graph, ...]
    schedules: tuple[ast.Schedule, ...]
    chosen: dict[str, ast.Schedule]
    diagnostics: tuple[Diagnostic, ...]


def _front(source: Source, wanted: str | None, *, need_models: bool) -> _Front:
    module = parse(source)
    with _depth_reported(module.span):
        lowered = lower(module, source, need_models=need_models)
    schedules = lowered.schedules
    pipelines = [item.name.text for item in module.items if isinstance(item, ast.Pipeline)]
    diagnostics = [*lowered.diagnostics, *check_schedules(schedules, pipelines)]
    chosen: dict[str, ast.Schedule] = {}
    graphs: list[Graph] = []
    for graph in lowered.graphs:
        diagnostics += _too_deep(graph.body)
        found = choose_schedule(schedules, graph.name, wanted)
        if isinstance(found, Diagnostic) and need_models:  # a check need not choose
            diagnostics.append(found)
        for schedule in schedules:
            if schedule.pipeline.text == graph.name:
                settings, mistakes = resolve_schedule(schedule, graph)
                diagnostics += mistakes
                if schedule is found:
                    graph = replace(graph, settings=settings)
                    chosen[graph.name] = schedule
        graphs.append(graph)
    return _Front(tuple(graphs), schedules, chosen, tuple(diagnostics))


class _Back:
    """Takes checked graphs one by one and gives the plan."""

    def __init__(self, source: Source, optimise: bool, progress: Progress, count: int) -> None:
        self.directory, self.progress, self.count = source.directory, progress, count
        self.passes = [one for one in load_passes() if optimise or one.phase is Phase.PLACE]
        self.context = PassContext()
        self.segments = Segments()
        self.pipelines: list[PipelinePlan] = []
        self.memory: list[MemoryPlan] = []
        self.declined: list[Declined] = []
        self.explanation: dict[str, list[str]] = {}
        self.warnings: list[Diagnostic] = []

    def add(self, graph: Graph, schedule: ast.Schedule | None) -> None:
        """Optimise, place and plan one pipeline; raises CompileError when it is over budget."""
        self.progress(len(self.pipelines), self.count, graph.name)
        self._explain(FIRST, explain_graph(graph, self.directory))
        optimized = optimize(graph, self.passes, self.context)
        for run in optimized.log:
            placed = run is optimized.log[-1]
            self._explain(run.name, explain_graph(run.graph, self.directory, placed=placed))
        self.declined += [
            Declined(graph.name, by, one.stage, one.reason, place_of(one.span, self.directory))
            for by, one in optimized.declined
        ]
        memory = plan_memory(optimized.graph)
        if schedule is not None:
            self.warnings += check_budgets(schedule, memory)
        planned = plan_pipeline(optimized.graph, self.segments, self.directory)
        self.declined += planned.declined
        self.pipelines.append(planned.pipeline)
        self.memory += memory
        self._explain(LAST, explain_plan(optimized.graph, memory, self.directory))

    def finish(self) -> Plan:
        self.progress(self.count, self.count, "")
        plan = Plan(
            producer=version("headrace"),
            pipelines=tuple(self.pipelines),
            segments=self.segments.all,
            memory=tuple(self.memory),
            explanation=tuple((name, "\n".join(texts)) for name, texts in self.explanation.items()),
            declined=tuple(self.declined),
            blobs=self.segments.blobs,
        )
        verify_plan(plan)
        return plan

    def _explain(self, stage: str, text: str) -> None:
        self.explanation.setdefault(stage, []).append(text)


def _too_deep(region: Region, depth: int = 0) -> list[Diagnostic]:
    """Report the first block that is nested deeper than later parts can follow."""
    for node in region.nodes:
        if node.regions and depth == DEEPEST:
            return [_nesting(node.span)]
        for inner in node.regions:
            found = _too_deep(inner, depth + 1)
            if found:
                return found
    return []


@contextmanager
def _depth_reported(span: Span) -> Generator[None, None, None]:
    """Turn running out of stack, which only a source can cause, into a mistake of the source."""
    try:
        yield
    except RecursionError:
        raise CompileError([_nesting(span)]) from None


def _nesting(span: Span) -> Diagnostic:
    return Diagnostic("HR423", "blocks nest too deeply to be compiled", Label(span))
