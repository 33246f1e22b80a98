"""What a schedule says of a stage beside its batches: `instances`, `isolate`, `cpus`, `threads`,
`cache`, `warmup`, `resources`, `weight`, each where the stage heeds it."""

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Final, Literal

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic
from ..dsl.types import TensorType
from . import schedule_values as read
from .graph import FunctionDef, ModelDef
from .model_kinds import ONNX, backends_for
from .plan import ON_DEVICES
from .policies import Batching, Isolation, Priorities, Service
from .schedule_values import Keys, Mistake, Section

ISOLATE_KEYS: Final = Keys("`isolate`", ("memory", "timeout"))
ISOLATE: Final = "add `isolate = on`"
UNPLACED: Final = {
    "native": "it runs in the threads that call it",
    "remote": "it runs on another server",
}
"""Kinds of models whose place is not the schedule's to say."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that a schedule may name, and what it runs (None: a stdlib op)."""

    name: str
    runs: ModelDef | FunctionDef | None

    @property
    def is_model(self) -> bool:
        return isinstance(self.runs, ModelDef)

    @property
    def is_function(self) -> bool:
        return isinstance(self.runs, FunctionDef) and self.is_python

    @property
    def is_python(self) -> bool:
        match self.runs:
            case ModelDef(backend=backend):
                return backend == "python"
            case FunctionDef(kind=kind):
                return kind == "python"
            case None:
                return False

    @property
    def is_triton(self) -> bool:
        """Whether it is a model that has processes of its own where nothing is said."""
        return self.kind == "triton_python"

    @property
    def kind(self) -> str:
        """The kind of its model or function; "" of an op."""
        match self.runs:
            case ModelDef(backend=kind) | FunctionDef(kind=kind):
                return kind
            case None:
                return ""

    @property
    def batches(self) -> bool:
        match self.runs:
            case ModelDef():
                return self.runs.batches
            case FunctionDef():
                return self.runs.batched
            case None:
                return False


def read_backend(setting: ast.Setting, stage: Stage) -> str:
    """Read `backend = openvino`: what runs a model of this kind, where several can."""
    choices = backends_for(stage.kind)
    if len(choices) < 2:
        message = f"`backend` has no effect on `{stage.name}`: nothing else runs it"
        raise Mistake("HR403", message, setting.key.span, "has no effect")
    return read.word(*choices)(setting)


@dataclass(frozen=True, slots=True)
class Instances:
    """How many there are, and where; `spread` has both for each device where there are several."""

    count: int | None = None
    device: str | None = None
    spread: tuple[tuple[str, int], ...] = ()

    @property
    def farthest(self) -> str | None:
        """One of its devices, the host's only where there is no other."""
        others = [device for device, _ in self.spread if device != "cpu"]
        return others[0] if others else self.device


def read_instances(section: Section, stage: Stage, *, isolated: bool) -> Instances:
    """Take `instances` and `device`: how many there are, and where."""
    if stage.is_function:
        if not isolated:
            message = f"`instances` has no effect on `{stage.name}`: a Python function runs"
            section.refuse("instances", "HR403", f"{message} in the threads that call it", ISOLATE)
        message = f"`device` has no effect on `{stage.name}`: a Python function runs on the CPU"
        section.refuse("device", "HR403", message)
    if stage.kind in UNPLACED:
        message = f"`device` has no effect on `{stage.name}`: {UNPLACED[stage.kind]}"
        section.refuse("device", "HR403", message)
    found = section.take("instances", lambda s: _instances(s, stage))
    given = found or Instances()
    if given.device is not None or given.spread:
        message = f"`device` has no effect on `{stage.name}`: its `instances` say where they are"
        section.refuse("device", "HR403", message)
        return given if stage.is_model else replace(given, device=None)
    return replace(given, device=section.take("device", read.device))


def _instances(setting: ast.Setting, stage: Stage) -> Instances:
    """Read `2`, or `[gpu(0), 2 * gpu(1)]`."""
    expr = read.value(setting)
    if not isinstance(expr, ast.ListLiteral):
        return Instances(read.count(setting))
    found: dict[str, int] = {}
    for item in expr.items:
        device, count = _placed(setting, item)
        found[device] = found.get(device, 0) + count
    if not found:
        raise Mistake("HR406", "`instances` names no device", expr.span)
    others = [device for device in found if device != "cpu"]
    if others and (stage.is_function or stage.kind in UNPLACED):
        why = "a Python function runs on the CPU" if stage.is_function else UNPLACED[stage.kind]
        message = f"`{others[0]}` has no effect on `{stage.name}`: {why}"
        help = f"write `instances = {sum(found.values())}`"
        raise Mistake("HR403", message, expr.span, "has no effect", help)
    if len(found) > 1:
        return Instances(spread=tuple(found.items()))
    ((device, count),) = found.items()
    return Instances(count, device)


def _placed(setting: ast.Setting, item: ast.Expr) -> tuple[str, int]:
    """Read `gpu(0)`, `2 * gpu(0)` or `gpu(0) * 2`."""
    match item:
        case ast.Binary(op="*", left=ast.Number() as count, right=device):
            return read.device_named(setting, device), read.whole(setting, count)
        case ast.Binary(op="*", left=device, right=count):
            return read.device_named(setting, device), read.whole(setting, count)
        case _:
            return read.device_named(setting, item), 1


def read_isolation(
    section: Section, stage: Stage, diagnostics: list[Diagnostic]
) -> tuple[Isolation | None, bool]:
    """Take `isolate = on`, `off` or `{ memory = 2GiB, timeout = 5s }`, of what runs Python; the
    second of what is returned says that a model which else has a process runs in the engine's."""
    if not (stage.is_python or stage.is_triton):
        message = f"`isolate` has no effect on `{stage.name}`: only Python runs in its own process"
        section.refuse("isolate", "HR403", message)
    found = section.take("isolate", lambda s: _isolation(s, stage, diagnostics))
    return (found, False) if isinstance(found, Isolation) else (None, found is not None)


def _isolation(
    setting: ast.Setting, stage: Stage, diagnostics: list[Diagnostic]
) -> Isolation | Literal["off"]:
    if setting.settings is None:
        if read.word("on", "off")(setting) == "on":
            return Isolation()
        if not stage.is_triton:
            message = f"`isolate = off` has no effect on `{stage.name}`: nothing isolates it"
            raise Mistake("HR403", message, setting.key.span, "has no effect", "leave it out")
        return "off"
    section = Section(ISOLATE_KEYS, setting.settings)
    memory = section.take("memory", read.size)
    timeout = section.take("timeout", read.positive_duration)
    section.close(setting, diagnostics)
    return Isolation(memory, timeout)


def read_service(
    section: Section,
    stage: Stage,
    priority: Priorities | None,
    isolation: Isolation | None,
    *,
    in_process: bool,
    given: Set[str],
    device: str,
    backend: str | None,
    batching: Batching | None,
    diagnostics: list[Diagnostic],
) -> tuple[Service, bool]:
    """Take the other keys; the second of what is returned says that `warmup = on`.

    `given` are all keys that are there, `device` where the stage runs.
    """
    isolated = not in_process if stage.is_triton else "isolate" in given
    _refuse_cores(section, stage, device, backend, isolated=isolated)
    cpus = section.take("cpus", lambda s: read.counts(s, least=0))
    threads = section.take("threads", read.count)
    if isinstance(stage.runs, FunctionDef) and not stage.runs.pure:
        message = f"`cache` has no effect on `{stage.name}`: it may give something else each time"
        section.refuse("cache", "HR403", message, "declare it `pure` if it does not")
    # what a tritonserver keeps of a model's answers goes by their inputs alone
    triton = stage.kind == "triton_python"
    if isinstance(stage.runs, ModelDef) and stage.runs.told and not triton:
        message = f"`cache` has no effect on `{stage.name}`: it asks for the request that it serves"
        section.refuse("cache", "HR403", message)
    if device != "cpu" and (backend or stage.kind) in ON_DEVICES:
        message = f"`cache` has no effect on `{stage.name}`: its values stay in a device's memory"
        section.refuse("cache", "HR403", message)
    cache = section.take("cache", read.size)
    if stage.is_function:
        message = f"`warmup` has no effect on `{stage.name}`: a function has nothing to load"
        section.refuse("warmup", "HR403", message)
    warmup = section.take("warmup", lambda s: _warmup(s, stage, batching))
    graphs = _take_graphs(section, stage, device, backend, warm=warmup is not None)
    if "resources" not in given:
        message = f"`weight` has no effect on `{stage.name}`: it takes no resources"
        section.refuse("weight", "HR403", message, "add `resources { }` with what it takes")
    resources = section.take("resources", lambda s: read_resources(s, diagnostics))
    weight = section.take("weight", read.count)
    rows = warmup if warmup is not None else ()
    service = Service(
        priority,
        cache,
        rows,
        resources or (),
        cpus or (),
        threads,
        isolation,
        graphs,
        in_process=in_process,
        weight=weight or 0,
    )
    return service, warmup == ()


def _refuse_cores(
    section: Section, stage: Stage, device: str, backend: str | None, *, isolated: bool
) -> None:
    """Refuse `cpus` and `threads` where the threads are not the stage's own."""
    for key in ("cpus", "threads"):
        message = f"`{key}` has no effect on `{stage.name}`"
        if (stage.is_python or stage.is_triton) and not isolated:
            message = f"{message}: it runs in the threads that call it"
            cure = "leave out `isolate = off`" if stage.is_triton else ISOLATE
            section.refuse(key, "HR403", message, cure)
        elif stage.kind in UNPLACED:
            section.refuse(key, "HR403", f"{message}: {UNPLACED[stage.kind]}")
        elif key == "cpus" and not stage.is_python and (backend or stage.kind) not in ON_DEVICES:
            message = f"{message}: the threads of {backend or stage.kind} go where they like"
            section.refuse(key, "HR403", message)
        elif not stage.is_python and device.startswith("gpu:"):
            section.refuse(key, "HR403", f"{message}: it runs on {device}")


def _take_graphs(
    section: Section, stage: Stage, device: str, backend: str | None, *, warm: bool
) -> bool:
    """Take `graphs = on`: the runs of a model of one size on a GPU are launched as a whole."""
    why, help = _graphless(stage, device, backend, warm=warm)
    if why:
        section.refuse("graphs", "HR403", f"`graphs` has no effect on `{stage.name}`: {why}", help)
    return section.take("graphs", read.word("on", "off")) == "on"


def _graphless(
    stage: Stage, device: str, backend: str | None, *, warm: bool
) -> tuple[str, str | None]:
    """Return why runs of a stage cannot be CUDA graphs ("": they can), and the cure."""
    if not isinstance(stage.runs, ModelDef) or (backend or stage.kind) != ONNX:
        return "only what ONNX Runtime runs is captured", None
    if device == "cpu":
        return "it runs on cpu", "add `device = gpu(0)`"
    signature = stage.runs.signature
    for field in (*signature.params, *signature.results):
        kind = field.type
        if not isinstance(kind, TensorType) or not all(isinstance(d, int) for d in kind.dims):
            return f"a graph has one size, and `{field.name}` is {kind}", None
    if not warm:
        return "graphs are of the sizes that it is warmed up with", "add `warmup = on`"
    return "", None


def _warmup(setting: ast.Setting, stage: Stage, batching: Batching | None) -> tuple[int, ...]:
    """Read `on`, which is (), or the rows of each run."""
    expr = read.value(setting)
    if isinstance(expr, ast.Name):
        read.word("on")(setting)
        return ()
    rows = read.counts(setting)
    if rows[-1] > 1 and not stage.batches:
        message = f"`{stage.name}` cannot be warmed up with {rows[-1]} rows: it cannot batch"
        raise Mistake("HR408", message, expr.span, "no run can be that large", "write `[1]`")
    if batching is not None and rows[-1] > batching.maximum:
        message = f"`warmup` names {rows[-1]}, but `max` is {batching.maximum}"
        raise Mistake("HR406", message, expr.span, "no batch can be that large")
    return rows


def read_resources(
    setting: ast.Setting, diagnostics: list[Diagnostic]
) -> tuple[tuple[str, int], ...]:
    """Read `resources { dsp = 1 }`: what a run takes, or what there is in all."""
    entries = read.entries(setting)
    if not entries:
        message = "`resources` has no effect: it names none"
        raise Mistake("HR403", message, setting.key.span, "has no effect", "add `dsp = 1`")
    section = Section(Keys("`resources`", ()), entries)
    found = [(entry.key.text, section.take(entry.key.text, _resource)) for entry in entries]
    section.close(setting, diagnostics)
    return tuple(sorted((name, count) for name, count in found if count is not None))


def _resource(setting: ast.Setting) -> int:
    if not setting.key.text.replace("_", "").isalnum():
        message = f"a resource has a plain name, not `{setting.key.text}`"
        raise Mistake("HR405", message, setting.key.span, "write a name such as `dsp`")
    return read.count(setting)
