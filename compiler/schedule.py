"""Schedules: how a pipeline runs, resolved against what it has. Nothing is accepted and ignored.

A key that nothing would heed (unknown, misplaced, not served yet, on a stage that cannot) is a
mistake. Stages are read in `schedule_stage.py`. Which of several schedules holds is decided in
`choose_schedule.py`.
"""

from collections.abc import Sequence

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic, Label
from ..dsl.nearest import nearest
from . import schedule_values as read
from .choose_schedule import schedule_name
from .graph import FunctionCall, Graph, ModelCall, OpCall, Settings, StageSettings
from .policies import Sequencing
from .rewrite import walk
from .schedule_places import refuse_spread, refuse_with_places
from .schedule_queue import ANY_PRIORITY, OF_PRIORITY, OF_QUEUE, read_priority, read_queueing
from .schedule_service import Stage, read_resources
from .schedule_sizes import read_sizes
from .schedule_stage import OF_BATCH, STAGE_KEYS, Around, read_stage
from .schedule_values import Keys, Mistake, Section

OF_SEQUENCES = ("strategy", "max", "backlog", "slots")
_SERVED = ("queue", "device", "memory", "priority", "resources", "sequences")
PIPELINE_KEYS = Keys(
    "a pipeline",
    _SERVED,
    (
        *((key, "`batch { }` of a stage") for key in OF_BATCH),
        *((key, "`queue { }`") for key in OF_QUEUE),
        *((key, "`priority { }`") for key in OF_PRIORITY),
        *((key, "`sequences { }`") for key in OF_SEQUENCES if key != "max"),
        *((key, "the settings of a stage") for key in STAGE_KEYS.served if key not in _SERVED),
    ),
)
SEQUENCE_KEYS = Keys(
    "`sequences`", OF_SEQUENCES, (("idle", "`per sequence idle 60s` of the pipeline"),)
)


def stages_of(graph: Graph) -> dict[str, Stage]:
    """Return the stages of a pipeline by name, nested ones included, in the order written."""
    found: dict[str, Stage] = {}

    for node in walk(graph.body):
        match node.kind:
            case ModelCall(model=name):
                found.setdefault(node.stage, Stage(node.stage, graph.model(name)))
            case FunctionCall(function=name):
                found.setdefault(node.stage, Stage(node.stage, graph.function(name)))
            case OpCall():
                found.setdefault(node.stage, Stage(node.stage, None))
            case _:
                pass
    return found


def resolve_schedule(
    schedule: ast.Schedule, graph: Graph
) -> tuple[Settings, tuple[Diagnostic, ...]]:
    """Return what a schedule says of a pipeline as lowered, and all mistakes in it."""
    stages = stages_of(graph)
    of_stage = [s for s in schedule.settings if _names_stage(s, stages)]
    of_pipeline = [s for s in schedule.settings if not _names_stage(s, stages)]
    given = {setting.key.text: setting for setting in of_pipeline}
    section = Section(PIPELINE_KEYS, of_pipeline)
    device = section.take("device", read.device)
    priority = section.take("priority", lambda s: read_priority(s, section.diagnostics))
    known = priority or (ANY_PRIORITY if "priority" in given else None)
    queueing = section.take("queue", lambda s: read_queueing(s, known, section.diagnostics))
    names = Section(Keys("the pipeline", tuple(stages)), of_stage)
    settings: list[tuple[str, StageSettings]] = []
    for setting in of_stage:
        found = names.take(
            setting.key.text,
            lambda s: _stage(s, stages, Around(device, known), names.diagnostics),
        )
        if found is not None:
            settings.append((setting.key.text, found))
    placed = {
        name: [device for device, _ in one.spread] or [one.device]
        for name, one in settings
        if one.spread or one.device is not None
    }
    unplaced = any(one.is_model and name not in placed for name, one in stages.items())
    if device is not None and not unplaced:
        message = "`device` has no effect: no model of the pipeline is without its own"
        section.diagnostics.append(read.no_effect(given["device"].key, message))
    named = {one for devices in placed.values() for one in devices if one is not None}
    devices = {"cpu", *named, *([device] if device is not None else [])}
    memory = section.take("memory", lambda s: _memory(s, devices, section.diagnostics))
    if graph.idle is None:
        message = f"`sequences` has no effect: `{graph.name}` is not `per sequence`"
        section.refuse("sequences", "HR403", message)
    sequencing = section.take("sequences", lambda s: _sequencing(s, section.diagnostics))
    unplaceable = refuse_with_places(of_stage, settings, stages, sequencing)
    unplaceable += refuse_spread(of_stage, settings, kept=graph.idle is not None)
    needs = {name: one.service.resources for name, one in settings}
    resources = section.take("resources", lambda s: _resources(s, needs, section.diagnostics))
    sizes, missized = read_sizes(of_stage, graph)
    diagnostics = [*section.finish(), *names.finish(), *unplaceable, *missized]
    return Settings(
        name=schedule_name(schedule),
        stages=tuple(settings),
        queueing=queueing,
        device=device,
        memory=memory or (),
        priority=priority,
        sequencing=sequencing,
        resources=resources or (),
        sizes=sizes,
    ), tuple(sorted(diagnostics, key=lambda found: found.primary.span.start))


def _names_stage(setting: ast.Setting, stages: dict[str, Stage]) -> bool:
    """Whether a setting is of a stage: the pipeline's own keys win, other braces name stages."""
    key = setting.key.text
    pipeline_key = key in PIPELINE_KEYS.served
    misplaced = key in dict(PIPELINE_KEYS.elsewhere)
    return not pipeline_key and (key in stages or (setting.settings is not None and not misplaced))


def _stage(
    setting: ast.Setting, stages: dict[str, Stage], around: Around, diagnostics: list[Diagnostic]
) -> StageSettings:
    stage = stages.get(setting.key.text)
    if stage is None:
        raise _unknown_stage(setting.key, stages)
    return read_stage(setting, stage, around, diagnostics)


def _unknown_stage(key: ast.Ident, stages: dict[str, Stage]) -> Mistake:
    settable = [stage.name for stage in stages.values() if stage.runs is not None]
    meant = nearest(key.text, (*settable, *PIPELINE_KEYS.served))
    listed = ", ".join(f"`{name}`" for name in settable) or "none"
    return Mistake(
        "HR401",
        f"the pipeline has no stage `{key.text}`; there are {listed}",
        key.span,
        "no such stage",
        f"did you mean `{meant}`?" if meant else None,
    )


def _sequencing(setting: ast.Setting, diagnostics: list[Diagnostic]) -> Sequencing | None:
    """Read `sequences { strategy = oldest, max, backlog }`, or `direct` and `slots` for `max`."""
    section = Section(SEQUENCE_KEYS, read.entries(setting))
    strategy = section.take("strategy", read.word("oldest", "direct"))
    if strategy == "direct":
        _refuse_of(section, ("max",), "oldest", strategy)
    if strategy == "oldest":
        _refuse_of(section, ("slots",), "direct", strategy)
    most, backlog = section.take("max", read.count), section.take("backlog", read.count)
    slots = section.take("slots", read.count)
    needs = "slots = 8" if strategy == "direct" else "strategy = oldest"
    section.close(setting, diagnostics, needs=needs)
    match strategy:
        case "oldest":
            return Sequencing("oldest", most, backlog)
        case "direct" if slots is not None:
            return Sequencing("direct", None, backlog, slots)
        case _:
            return None


def _refuse_of(section: Section, keys: Sequence[str], of: str, strategy: str) -> None:
    for key in keys:
        message = f"`{key}` has no effect with `strategy = {strategy}`"
        section.refuse(key, "HR403", message, f"write `strategy = {of}`")


def _resources(
    setting: ast.Setting,
    needs: dict[str, tuple[tuple[str, int], ...]],
    diagnostics: list[Diagnostic],
) -> tuple[tuple[str, int], ...]:
    """Read how much there is in all of what stages take; `needs` are those of each stage."""
    totals = read_resources(setting, diagnostics)
    keys = {entry.key.text: entry for entry in read.entries(setting)}
    taken = {name for one in needs.values() for name, _ in one}
    for name, total in totals:
        if name not in taken:
            meant = nearest(name, sorted(taken))
            help = f"did you mean `{meant}`?" if meant else "give a stage `resources { }`"
            message = f"`{name}` has no effect: no stage takes it"
            diagnostics.append(read.no_effect(keys[name].key, message, help))
        for stage, taking in needs.items():
            if (count := dict(taking).get(name, 0)) > total:
                message = f"`{stage}` takes {count} `{name}`, and there is {total}"
                span = read.value(keys[name]).span
                diagnostics.append(Diagnostic("HR406", message, Label(span, "it could never run")))
    return totals


def _memory(
    setting: ast.Setting, devices: set[str], diagnostics: list[Diagnostic]
) -> tuple[tuple[str, int], ...]:
    """Read `memory { cpu = 900MiB, gpu(0) = 4GiB }` of a pipeline that runs on `devices`."""
    budgets: list[tuple[str, int]] = []
    section = Section(Keys("`memory`", ()), read.entries(setting))
    for entry in read.entries(setting):
        budget = section.take(entry.key.text, lambda s: _budget(s, devices))
        budgets += [budget] if budget is not None else []
    diagnostics += section.finish()
    return tuple(sorted(budgets))


def _budget(entry: ast.Setting, devices: set[str]) -> tuple[str, int]:
    key = entry.key.text
    name = read.device_key(entry.key)
    if name is None:
        raise read.unknown_device(key, entry.key.span)
    if name not in devices:
        message = f"`{key}` has no effect here: nothing of the pipeline runs there"
        raise Mistake("HR403", message, entry.key.span, "has no effect")
    return name, read.size(entry)
