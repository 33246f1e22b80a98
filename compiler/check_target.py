"""A plan against the machine that it is for: the devices that its schedule names, and memory.

What is counted is known before anything runs: the values of one request whose size is known, and
the models as their files have them. What a library needs to run a model comes on top of it, so a
plan that is let through may still be too large; one that is refused is so for certain.
"""

from collections.abc import Iterator, Sequence

from ..dsl import ast
from ..dsl.diagnostic import CompileError, Diagnostic, Label
from ..dsl.source import Span
from .graph import Graph
from .plan import MemoryPlan
from .policy_text import scaled
from .rewrite import model_calls
from .schedule_values import written
from .stage_settings import CPU, device_of, members_of, settings_of
from .target import Target


def check_target(
    target: Target,
    schedule: ast.Schedule | None,
    graphs: Sequence[Graph],
    memory: Sequence[MemoryPlan],
) -> None:
    """Raise CompileError where a placed pipeline, in each of its lanes, asks for more than there
    is."""
    missing = {
        one.primary.span: one for graph in graphs for one in _missing(target, schedule, graph)
    }
    found = [*missing.values()] or list(_too_large(target, schedule, graphs, memory))
    if found:
        raise CompileError(found)


def models_on(graphs: Sequence[Graph]) -> dict[str, int]:
    """Return the bytes of the models on each device, each model there once."""
    found: dict[tuple[str, str], int] = {}
    for graph in graphs:
        for node, call in model_calls(graph.body):
            blob = graph.model(call.model).content
            if blob is not None:
                found[device_of(graph, node), blob.digest] = len(blob.content)
    sums: dict[str, int] = {}
    for (device, _), nbytes in found.items():
        sums[device] = sums.get(device, 0) + nbytes
    return sums


def _missing(target: Target, schedule: ast.Schedule | None, graph: Graph) -> Iterator[Diagnostic]:
    """Yield what a schedule names that the target has not."""
    for node, _ in model_calls(graph.body):
        device, engine = device_of(graph, node), settings_of(graph, node).service.engine
        span = _span(schedule, graph, members_of(graph, node))
        kind, _, index = device.partition(":")
        if kind != "gpu":
            continue
        if int(index) >= len(target.gpus):
            there = ", ".join(f"gpu({number})" for number in range(len(target.gpus)))
            message = f"`{node.stage}` is on {written(device)}, and `{target.name}` has "
            label = Label(span, "not there")
            yield Diagnostic("HR426", message + (there or "no GPU"), label, help=_cure(target))
        elif engine is not None and engine.dla is not None:
            cores = target.gpus[int(index)].dla
            if engine.dla >= cores:
                message = f"`{node.stage}` is on dla({engine.dla}), and `{target.name}` has "
                label = Label(span, "not there")
                yield Diagnostic("HR426", f"{message}{cores or 'no'} DLA cores", label)


def _too_large(
    target: Target,
    schedule: ast.Schedule | None,
    graphs: Sequence[Graph],
    memory: Sequence[MemoryPlan],
) -> Iterator[Diagnostic]:
    models = models_on(graphs)
    values = {one.device: one.peak for one in memory}
    needs = {device: (values.get(device, 0), models.get(device, 0)) for device in values | models}
    if target.unified:
        sums = [sum(one) for one in zip(*needs.values(), strict=True)] or [0, 0]
        needs = {CPU: (sums[0], sums[1])}
    graph = graphs[0]
    for device, (peak, content) in needs.items():
        there = target.memory_of(device)
        if there is None or peak + content <= there:
            continue
        where = "" if target.unified else f" on {written(device)}"
        yield Diagnostic(
            "HR426",
            f"`{graph.name}` needs {_text(peak + content)}{where}, and `{target.name}` has "
            f"{_text(there)}",
            Label(schedule.span if schedule is not None else graph.span, "too large"),
            notes=(f"{_text(peak)} for the values of a request, {_text(content)} for models",),
        )


def _span(schedule: ast.Schedule | None, graph: Graph, members: Sequence[str]) -> Span:
    """Return where a schedule says on which device a stage is."""
    if schedule is None:
        return graph.span
    given = {one.key.text: one for one in schedule.settings}
    for name in members:
        inner = {one.key.text: one for one in given[name].settings or ()} if name in given else {}
        for key in ("device", "instances"):
            if key in inner:
                return inner[key].span
    return given["device"].span if "device" in given else schedule.span


def _cure(target: Target) -> str:
    return "name one of these" if target.gpus else "leave out `device`, or compile for another"


def _text(count: int) -> str:
    return " ".join(scaled(count))
