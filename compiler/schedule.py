"""Schedules: how a pipeline runs, resolved against what it has. Nothing is accepted and ignored.

A key that nothing would heed (unknown, misplaced, not served yet, on a stage that cannot) is a
mistake. Which of several schedules holds is decided in `choose_schedule.py`.
"""

from dataclasses import dataclass

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic
from ..dsl.nearest import nearest
from . import schedule_values as read
from .choose_schedule import schedule_name
from .graph import (
    Batching,
    FunctionCall,
    FunctionDef,
    Graph,
    ModelCall,
    ModelDef,
    OpCall,
    Queueing,
    Region,
    Settings,
    StageSettings,
)
from .schedule_padding import read_padding, refuse_on_sim
from .schedule_values import Keys, Mistake, Section

DEFAULT_QUEUE_SIZE = 1024  # requests that wait, where a schedule asks for a queue and gives no size

_OF_BATCH = ("max", "wait", "prefer", "pad", "bucket", "waste")
_OF_QUEUE = ("size", "timeout", "on_timeout")
_UNSERVED = ("precision", "isolate", "priority", "cache", "warmup")
_NESTED = (
    *((key, "`batch { }` of a stage") for key in _OF_BATCH),
    *((key, "`queue { }`") for key in (*_OF_QUEUE, "override")),
)
PIPELINE_KEYS = Keys(
    "a pipeline",
    ("queue", "device", "memory"),
    _UNSERVED,
    (*_NESTED, ("batch", "the settings of a stage"), ("instances", "the settings of a stage")),
)
STAGE_KEYS = Keys(
    "a stage",
    ("batch", "instances", "device", "queue"),
    _UNSERVED,
    (*_NESTED, ("memory", "the settings of the pipeline")),
)
BATCH_KEYS = Keys("`batch`", _OF_BATCH)
QUEUE_KEYS = Keys("`queue`", _OF_QUEUE, ("override",))


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that a schedule may name, and what it runs (None: a stdlib op)."""

    name: str
    runs: ModelDef | FunctionDef | None

    @property
    def is_model(self) -> bool:
        return isinstance(self.runs, ModelDef)


def stages_of(graph: Graph) -> dict[str, Stage]:
    """Return the stages of a pipeline by name, nested ones included, in the order written."""
    found: dict[str, Stage] = {}

    def walk(region: Region) -> None:
        for node in region.nodes:
            match node.kind:
                case ModelCall(model=name):
                    found.setdefault(node.stage, Stage(node.stage, graph.model(name)))
                case FunctionCall(function=name):
                    found.setdefault(node.stage, Stage(node.stage, graph.function(name)))
                case OpCall():
                    found.setdefault(node.stage, Stage(node.stage, None))
                case _:
                    pass
            for inner in node.regions:
                walk(inner)

    walk(graph.body)
    return found


def resolve_schedule(
    schedule: ast.Schedule, graph: Graph
) -> tuple[Settings, tuple[Diagnostic, ...]]:
    """Return what a schedule says of a pipeline as lowered, and all mistakes in it."""
    stages = stages_of(graph)
    of_stage = [s for s in schedule.settings if _names_stage(s, stages)]
    names = Section(Keys("the pipeline", tuple(stages)), of_stage)
    settings: list[tuple[str, StageSettings]] = []
    for setting in of_stage:
        found = names.take(setting.key.text, lambda s: _stage(s, stages, names.diagnostics))
        if found is not None:
            settings.append((setting.key.text, found))
    section = Section(PIPELINE_KEYS, [s for s in schedule.settings if not _names_stage(s, stages)])
    placed = {name: setting.device for name, setting in settings if setting.device is not None}
    if not any(one.is_model and name not in placed for name, one in stages.items()):
        message = "`device` has no effect: no model of the pipeline is without its own"
        section.refuse("device", "HR403", message)
    device = section.take("device", read.device)
    devices = {"cpu", *placed.values(), *([device] if device is not None else [])}
    memory = section.take("memory", lambda s: _memory(s, devices, section.diagnostics))
    queueing = section.take("queue", lambda s: _queueing(s, section.diagnostics))
    refused = refuse_on_sim(of_stage, settings, device)
    diagnostics = [*section.finish(), *names.finish(), *refused]
    return Settings(
        name=schedule_name(schedule),
        stages=tuple(settings),
        queueing=queueing,
        device=device,
        memory=memory or (),
    ), tuple(sorted(diagnostics, key=lambda found: found.primary.span.start))


def _names_stage(setting: ast.Setting, stages: dict[str, Stage]) -> bool:
    """Whether a setting is of a stage: the pipeline's own keys win, other braces name stages."""
    key = setting.key.text
    pipeline_key = key in PIPELINE_KEYS.served or key in PIPELINE_KEYS.unserved
    misplaced = key in dict(PIPELINE_KEYS.elsewhere)
    return not pipeline_key and (key in stages or (setting.settings is not None and not misplaced))


def _stage(
    setting: ast.Setting, stages: dict[str, Stage], diagnostics: list[Diagnostic]
) -> StageSettings:
    stage = stages.get(setting.key.text)
    if stage is None:
        raise _unknown_stage(setting.key, stages)
    section = Section(STAGE_KEYS, read.entries(setting))
    if stage.runs is None:
        for key in STAGE_KEYS.served:
            section.refuse(
                key, "HR403", f"`{key}` has no effect on `{stage.name}`: it is an op, not a model"
            )
    off, batching = False, None
    refusal = _cannot_batch(stage)
    if refusal is not None:
        section.refuse("batch", "HR408", refusal)
    else:
        found = section.take("batch", lambda s: _batching(s, stage, section.diagnostics))
        off, batching = found if found is not None else (False, None)
    if isinstance(stage.runs, FunctionDef):
        message = f"has no effect on `{stage.name}`: a Python function runs"
        section.refuse("instances", "HR403", f"`instances` {message} in the threads that call it")
        section.refuse("device", "HR403", f"`device` {message} on the CPU")
    instances = section.take("instances", _instances)
    device = section.take("device", read.device)
    if batching is None:
        message = f"`queue` has no effect on `{stage.name}`: without `batch` nothing waits there"
        section.refuse("queue", "HR403", message)
    queueing = section.take("queue", lambda s: _queueing(s, section.diagnostics))
    diagnostics += section.finish()
    return StageSettings(batching, off, instances, device, queueing)


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


def _cannot_batch(stage: Stage) -> str | None:
    match stage.runs:
        case ModelDef(batches=False):
            return f"`{stage.name}` cannot batch: its model has no batch axis"
        case FunctionDef(batched=False):
            return f"`{stage.name}` cannot batch: it is not declared `batched`"
        case _:
            return None


def _batching(
    setting: ast.Setting, stage: Stage, diagnostics: list[Diagnostic]
) -> tuple[bool, Batching | None]:
    """Read `batch { max, wait, prefer, pad, bucket, waste }` or `batch = off`."""
    if setting.value is not None and setting.settings is None:
        read.word("off")(setting)
        return True, None
    section = Section(BATCH_KEYS, read.entries(setting))
    given = {entry.key.text for entry in read.entries(setting)}
    maximum = section.take("max", read.count)
    wait = section.take("wait", read.duration)
    prefer = section.take("prefer", lambda s: _preferred(s, maximum))
    padding = read_padding(section, given, stage.name, stage.runs)
    mistakes = section.finish()
    diagnostics += mistakes
    if "max" not in given and not mistakes:  # else it may be the one that is misspelt
        raise Mistake("HR406", "`batch` needs `max`", setting.key.span, help="add `max = 8`")
    return False, Batching(maximum, wait or 0.0, prefer or (), padding) if maximum else None


def _preferred(setting: ast.Setting, maximum: int | None) -> tuple[int, ...]:
    sizes = read.counts(setting)
    if maximum is not None and sizes and sizes[-1] > maximum:
        raise Mistake(
            "HR406",
            f"`prefer` names {sizes[-1]}, but `max` is {maximum}",
            read.value(setting).span,
            "no batch can be that large",
        )
    return sizes


def _instances(setting: ast.Setting) -> int:
    expr = read.value(setting)
    if isinstance(expr, ast.ListLiteral):
        raise Mistake(
            "HR404", "a list of `instances` is not served yet", expr.span, "give a number"
        )
    return read.count(setting)


def _queueing(setting: ast.Setting, diagnostics: list[Diagnostic]) -> Queueing:
    section = Section(QUEUE_KEYS, read.entries(setting))
    given = {entry.key.text for entry in read.entries(setting)}
    size = section.take("size", read.count)
    timeout = section.take("timeout", read.positive_duration)
    if "timeout" not in given:
        message = "`on_timeout` has no effect without `timeout`"
        section.refuse("on_timeout", "HR403", message)
    on_timeout = section.take("on_timeout", read.word("reject", "delay"))
    diagnostics += section.finish()
    return Queueing(size or DEFAULT_QUEUE_SIZE, timeout, on_timeout or "reject")


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
    index = key.removeprefix("gpu(").removesuffix(")")
    name = f"gpu:{int(index)}" if key == f"gpu({index})" and index.isdecimal() else key
    if name not in ("cpu", "sim") and not name.startswith("gpu:"):
        raise read.unknown_device(key, entry.key.span)
    if name not in devices:
        message = f"`{key}` has no effect here: nothing of the pipeline runs there"
        raise Mistake("HR403", message, entry.key.span, "has no effect")
    return name, read.size(entry)
