"""What a schedule says of one stage: `read { batch { max = 16 }, instances = 2, ... }`.

A key that the stage would not heed is refused; the cure is said where there is one.
"""

from dataclasses import dataclass, replace
from typing import Final

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic
from . import schedule_values as read
from .graph import FunctionDef, ModelDef, StageSettings
from .model_kinds import ONNX
from .policies import Batching, Priorities
from .precision.report import Precision
from .schedule_engine import ENGINE_KEYS, ON_DLA, read_engine, take_core
from .schedule_padding import read_padding
from .schedule_queue import ANY_PRIORITY, OF_PRIORITY, OF_QUEUE, read_priority, read_queueing
from .schedule_service import Stage, read_backend, read_instances, read_isolation, read_service
from .schedule_values import Keys, Mistake, Section

OF_BATCH = ("max", "wait", "prefer", "pad", "bucket", "waste")
STAGE_KEYS = Keys(
    "a stage",
    (
        *("batch", "instances", "device", "queue", "priority", "cache", "warmup", "threads"),
        *("cpus", "resources", "weight", "isolate", "backend", "engine"),
        *("precision", "graphs"),
    ),
    (
        *((key, "`batch { }`") for key in OF_BATCH),
        *((key, "`queue { }`") for key in OF_QUEUE),
        *((key, "`priority { }`") for key in OF_PRIORITY),
        ("memory", "the settings of the pipeline, or in `isolate { }`"),
        ("sequences", "the settings of the pipeline"),
        *((key, "`engine { }`") for key in ENGINE_KEYS.served),
    ),
)
BATCH_KEYS = Keys("`batch`", OF_BATCH)
_TENSORS: Final = {"f16": Precision.FP16, "i8": Precision.INT8}


@dataclass(frozen=True, slots=True)
class Around:
    """What the schedule says of the pipeline that its stages build on."""

    device: str | None
    priority: Priorities | None


def read_stage(
    setting: ast.Setting, stage: Stage, around: Around, diagnostics: list[Diagnostic]
) -> StageSettings:
    """Return what a schedule says of a stage; adds the mistakes."""
    entries = read.entries(setting)
    section, given = Section(STAGE_KEYS, entries), {entry.key.text for entry in entries}
    if stage.runs is None:
        for key in STAGE_KEYS.served:
            message = f"`{key}` has no effect on `{stage.name}`: it is an op, not a model"
            section.refuse(key, "HR403", message)
    off, batching = _take_batching(section, stage)
    backend = section.take("backend", lambda s: read_backend(s, stage))
    precision = section.take("precision", lambda s: _precision(s, stage))
    isolation, in_process = read_isolation(section, stage, section.diagnostics)
    core = take_core(section, entries, backend)
    placed = read_instances(section, stage, isolated="isolate" in given)
    device = placed.device if core is None else ON_DLA
    engine = read_engine(section, stage, backend, core, section.diagnostics)
    bounded = bool(given & {"instances", "resources", "isolate"})
    if not bounded and (off or "batch" not in given) and not (stage.is_model and stage.is_python):
        for key in ("queue", "priority"):
            message = (
                f"`{key}` has no effect on `{stage.name}`: without `batch` nothing waits there"
            )
            section.refuse(key, "HR403", message, _what_waits(stage))
    priority = section.take("priority", lambda s: read_priority(s, section.diagnostics))
    known = priority or (ANY_PRIORITY if "priority" in given else around.priority)
    queueing = section.take("queue", lambda s: read_queueing(s, known, section.diagnostics))
    service, warmed = read_service(
        section,
        stage,
        priority,
        isolation,
        in_process=in_process,
        given=given,
        device=(device if core is not None else placed.farthest) or around.device or "cpu",
        backend=backend,
        batching=batching,
        diagnostics=section.diagnostics,
    )
    service = replace(service, engine=engine)
    diagnostics += section.finish()
    return StageSettings(
        batching,
        off,
        placed.count,
        device,
        queueing,
        service,
        warmed,
        backend,
        precision,
        spread=placed.spread,
    )


def _precision(setting: ast.Setting, stage: Stage) -> Precision:
    """Read `precision = int8`, of a model whose file can be rewritten."""
    if stage.kind != ONNX:
        message = f"`precision` has no effect on `{stage.name}`: only ONNX models are rewritten"
        raise Mistake("HR403", message, setting.key.span, "has no effect")
    expr = read.value(setting)
    if isinstance(expr, ast.Name) and (meant := _TENSORS.get(expr.text)) is not None:
        message = f"`precision` is a form of a model, and `{expr.text}` one of tensors"
        raise Mistake("HR405", message, expr.span, help=f"did you mean `{meant.value}`?")
    return Precision(read.word(*(one.value for one in Precision))(setting))


def _what_waits(stage: Stage) -> str:
    if stage.batches:
        return "give it `batch { max = 8 }`"
    return "give it `isolate = on`" if stage.is_python else "give it `instances = 1`"


def _take_batching(section: Section, stage: Stage) -> tuple[bool, Batching | None]:
    refusal = _cannot_batch(stage)
    if refusal is not None:
        section.refuse("batch", "HR408", refusal)
        return False, None
    found = section.take("batch", lambda s: _batching(s, stage, section.diagnostics))
    return found if found is not None else (False, None)


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
        _off(setting, setting.value)
        return True, None
    section = Section(BATCH_KEYS, read.entries(setting))
    given = {entry.key.text for entry in read.entries(setting)}
    maximum = section.take("max", read.count)
    wait = section.take("wait", read.duration)
    prefer = section.take("prefer", lambda s: _preferred(s, maximum))
    padding = read_padding(section, given, stage.name, stage.runs)
    section.close(setting, diagnostics, needs="max = 8")
    return False, Batching(maximum, wait or 0.0, prefer or (), padding) if maximum else None


def _off(setting: ast.Setting, value: ast.Expr) -> None:
    """Read `off`; a number is most likely meant to be the largest batch."""
    number = isinstance(value, ast.Number)
    if number or (isinstance(value, ast.Name) and value.text == "on"):
        most = value.span.text if number else "8"
        message = "`batch` is off, or has settings in braces"
        raise Mistake("HR405", message, value.span, help=f"write `batch {{ max = {most} }}`")
    read.word("off")(setting)


def _preferred(setting: ast.Setting, maximum: int | None) -> tuple[int, ...]:
    sizes = read.counts(setting)
    if maximum is not None and sizes[-1] > maximum:
        raise Mistake(
            "HR406",
            f"`prefer` names {sizes[-1]}, but `max` is {maximum}",
            read.value(setting).span,
            "no batch can be that large",
        )
    return sizes
