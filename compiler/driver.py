"""From a source to a plan: what `front` reads is optimised, placed and planned."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TypeAlias

from ..dsl import ast
from ..dsl.diagnostic import CompileError, Diagnostic, Label, Severity
from ..dsl.parse import parse
from ..dsl.source import Source, Span
from .budgets import check_budgets
from .check_engines import check_engines
from .check_target import check_target
from .choose_schedule import check_wanted, schedule_name
from .explain import FIRST, LAST, explain_plan
from .explain_graph import explain_graph
from .front import depth_reported, read_front
from .graph import Graph, Settings
from .graph_pass import PassContext, Phase
from .lanes import Lane, lanes_of, most_memory, spread_block
from .memory import plan_memory
from .optimize import Optimized, load_passes, optimize
from .places import place_of
from .plan import Declined, MemoryPlan, PipelinePlan, Plan
from .planner import Planned, plan_pipeline
from .precision.calibration import NO_DATA, NOTHING, Calibrating, Calibration
from .precision.report import Rewritten
from .precision.rewrite import rewrite
from .profile import Profile
from .resource_totals import total_resources
from .segments import Segments
from .stubs import Stubs, stub_stages
from .target import Target
from .unseen import find_unseen
from .verify_plan import verify_plan

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with how many pipelines are compiled, how many there are, and what comes next."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan, and what is worth saying about its sources although it could be made; the models that
    are in another precision, and what they were calibrated with."""

    plan: Plan
    warnings: tuple[Diagnostic, ...]
    rewritten: tuple[Rewritten, ...] = ()
    calibration: Calibration = NOTHING


def compile_source(
    source: Source,
    *,
    schedule: str | None = None,
    optimise: bool = True,
    progress: Progress | None = None,
    profile: Profile | None = None,
) -> Plan:
    """Return the plan of a source.

    `schedule` names the one that holds; with `optimise` False nothing is simplified or fused;
    `profile` decides where rows meet of which no schedule speaks.
    Raises CompileError with every mistake of the phase that found one, and ScheduleError when no
    schedule has the name.
    """
    compiled = compile_with_warnings(
        source, schedule=schedule, optimise=optimise, progress=progress, profile=profile
    )
    return compiled.plan


def compile_with_warnings(
    source: Source,
    *,
    schedule: str | None = None,
    optimise: bool = True,
    progress: Progress | None = None,
    profile: Profile | None = None,
    calibrating: Calibrating = NO_DATA,
    target: Target | None = None,
) -> Compiled:
    """Like `compile_source`, with the warnings beside the plan; `calibrating` is what models are
    brought to another precision with, `target` the machine that the plan must fit. Where no
    `schedule` is asked for, one of the target's name holds."""
    if target is not None and schedule is None:
        schedule = _schedule_for(target, source)
    front = read_front(source, schedule, need_models=True, choose=True)
    errors = [d for d in front.diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise CompileError(errors)
    if not front.graphs:
        raise CompileError([_no_pipeline(source)])
    check_wanted(front.schedules, schedule)
    back = _Back(source, optimise, progress or _silent, len(front.graphs), target)
    done = rewrite(front.graphs, front.chosen, calibrating, back.context.models)
    for graph in done.graphs:
        with depth_reported(graph.span):
            back.add(replace(graph, profile=profile), front.chosen.get(graph.name))
    warnings = (*front.diagnostics, *back.warnings)
    return Compiled(back.finish(), warnings, done.rewritten, done.calibration)


def compile_as_written(source: Source) -> Plan:
    """Return the plan of all pipelines, nothing fused, without any schedule.

    Raises CompileError with the mistakes of the source.
    """
    front = read_front(source, None, need_models=True, choose=False)
    errors = [d for d in front.diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise CompileError(errors)
    if not front.graphs:
        raise CompileError([_no_pipeline(source)])
    back = _Back(source, False, _silent, len(front.graphs))
    for graph in front.graphs:
        with depth_reported(graph.span):
            back.add(replace(graph, settings=Settings()), None)
    return back.finish()


def compile_for_test(source: Source, pipeline: str, stubs: Stubs) -> Plan:
    """Return the plan of one pipeline, nothing fused, with some stages replaced by their stubs.

    Neither schedules matter nor the files of models that only other pipelines call. Raises
    CompileError with the mistakes of the source.
    """
    spared = frozenset(stubs) | _of_others(source, pipeline)
    front = read_front(source, None, need_models=True, choose=False, stubbed=spared)
    errors = [d for d in front.diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise CompileError(errors)
    back = _Back(source, False, _silent, 1)
    for graph in front.graphs:
        if graph.name == pipeline:
            with depth_reported(graph.span):
                plain = replace(graph, settings=Settings(), called="", outside=())
                back.add(stub_stages(plain, stubs), None)
    return back.finish()


def _of_others(source: Source, pipeline: str) -> frozenset[str]:
    """Return the models that pipelines call, but not this one."""
    graphs = read_front(source, None, need_models=False, choose=False).graphs
    called = {graph.name: {model.name for model in graph.models} for graph in graphs}
    if pipeline not in called:
        return frozenset()
    return frozenset(name for names in called.values() for name in names - called[pipeline])


def _schedule_for(target: Target, source: Source) -> str | None:
    """Return the name of a target where a schedule of the source has it."""
    items = parse(source).items
    names = {schedule_name(one) for one in items if isinstance(one, ast.Schedule)}
    return target.name if target.name in names else None


def _no_pipeline(source: Source) -> Diagnostic:
    return Diagnostic(
        "HR339",
        "there is no pipeline in this file, so there is nothing to compile",
        Label(Span(source, 0, 0)),
        help='write `pipeline name(...) -> (...) { ... }`; other files `use "..." as` this one',
    )


def _silent(_done: int, _total: int, _name: str) -> None:
    pass


class _Back:
    """Takes checked graphs one by one and gives the plan."""

    def __init__(
        self,
        source: Source,
        optimise: bool,
        progress: Progress,
        count: int,
        target: Target | None = None,
    ) -> None:
        self.target = target
        self.directory, self.progress, self.count = source.directory, progress, count
        self.passes = [one for one in load_passes() if optimise or one.phase is Phase.PLACE]
        self.placing = {one.name for one in self.passes if one.phase >= Phase.PLACE}
        self.context = PassContext()
        self.segments = Segments()
        self.pipelines: list[PipelinePlan] = []
        self.memory: list[MemoryPlan] = []
        self.declined: list[Declined] = []
        self.explanation: dict[str, list[str]] = {}
        self.warnings: list[Diagnostic] = []
        self.scheduled: list[tuple[ast.Schedule, Settings]] = []

    def add(self, graph: Graph, schedule: ast.Schedule | None) -> None:
        """Optimise, place and plan one pipeline; raises CompileError when it is over budget."""
        self.progress(len(self.pipelines), self.count, graph.name)
        lanes = lanes_of(graph)
        laid_out = [self._lay_out(lane, schedule) for lane in lanes]
        memory = most_memory([one.memory for one in laid_out])
        if schedule is not None:
            self.warnings += check_budgets(schedule, memory)
            self.scheduled.append((schedule, graph.settings))
        if self.target is not None:
            graphs = [one.optimized.graph for one in laid_out]
            check_target(self.target, schedule, graphs, memory)
        first = laid_out[0].planned.pipeline
        if len(lanes) > 1:
            bodies = [one.planned.pipeline.body for one in laid_out]
            shares = [lane.share for lane in lanes]
            first = replace(first, body=spread_block(bodies, shares, first.place))
        unseen = find_unseen(graph, laid_out[0].optimized, self.directory)
        self.pipelines.append(replace(first, unseen=unseen))
        self.memory += memory
        self.declined += dict.fromkeys(reason for one in laid_out for reason in one.declined)

    def _lay_out(self, lane: Lane, schedule: ast.Schedule | None) -> "_LaidOut":
        """Optimise, place and plan a pipeline in one lane."""
        graph = lane.graph
        self._explain(FIRST, explain_graph(graph, self.directory), lane)
        optimized = optimize(graph, self.passes, self.context)
        for run in optimized.log:
            placed = run.name in self.placing
            self._explain(run.name, explain_graph(run.graph, self.directory, placed=placed), lane)
        declined = [
            Declined(
                graph.called or graph.name,
                by,
                one.stage,
                one.reason,
                place_of(one.span, self.directory),
            )
            for by, one in optimized.declined
        ]
        memory = plan_memory(optimized.graph)
        if schedule is not None:
            check_engines(schedule, graph, optimized.graph)
        planned = plan_pipeline(optimized.graph, self.segments, self.directory)
        self._explain(
            LAST, explain_plan(optimized.graph, memory, self.directory, self.target), lane
        )
        return _LaidOut(optimized, planned, memory, (*declined, *planned.declined))

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
            resources=total_resources(self.scheduled),
            target=self.target.name if self.target is not None else "",
        )
        verify_plan(plan)
        return plan

    def _explain(self, stage: str, text: str, lane: Lane) -> None:
        title = f"-- {lane.title} --\n" if lane.title else ""
        self.explanation.setdefault(stage, []).append(title + text)


@dataclass(frozen=True, slots=True)
class _LaidOut:
    """What became of a pipeline in one lane."""

    optimized: Optimized
    planned: Planned
    memory: tuple[MemoryPlan, ...]
    declined: tuple[Declined, ...]
