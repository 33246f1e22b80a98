"""`engine { sizes { W = [48, 320, 2304] } }`: between which sizes an engine is to run.

An engine is built for sizes from the least to the most, and is quickest at the usual one. Names are
those of the model; what they are of in the pipeline is what all stages have in common.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic
from ..dsl.source import Span
from ..dsl.types import Dim, DimVar
from . import schedule_values as read
from .dimensions import type_dims
from .engine_sizes import holds
from .graph import Graph, ModelCall, ModelDef, Node
from .known_sizes import dim_names
from .policies import SizeRange
from .rewrite import model_calls
from .schedule_values import Keys, Mistake, Section


@dataclass(frozen=True, slots=True)
class _Said:
    """What a schedule says of a dimension of the pipeline, and where."""

    range: SizeRange
    name: str
    stage: str
    span: Span


def read_sizes(
    written: Sequence[ast.Setting], graph: Graph
) -> tuple[tuple[tuple[Dim, SizeRange], ...], list[Diagnostic]]:
    """Return what the `sizes` of all stages say of the pipeline's dimensions, and the mistakes.

    What a model fixes needs no saying: `f32[3, 48, 192]` is 192 wide whatever its maker calls it.
    """
    diagnostics: list[Diagnostic] = []
    said: dict[Dim, _Said] = {}
    calls = dict[str, list[Node]]()
    for node, _ in model_calls(graph.body):
        calls.setdefault(node.stage, []).append(node)
    for stage in written:
        for sizes in _sizes_in(stage):
            if stage.key.text in calls:
                _read(sizes, graph, calls[stage.key.text], said, diagnostics)
    fixed = {
        given: SizeRange(declared, declared, declared)
        for nodes in calls.values()
        for declared, given in _pairs(graph, nodes)
        if isinstance(declared, int)
    }
    return tuple((fixed | {dim: one.range for dim, one in said.items()}).items()), diagnostics


def _sizes_in(stage: ast.Setting) -> Iterator[ast.Setting]:
    engines = [one for one in stage.settings or () if one.key.text == "engine"]
    for engine in engines[:1]:
        found = [one for one in engine.settings or () if one.key.text == "sizes"]
        yield from (one for one in found[:1] if one.settings is not None)


def _read(
    sizes: ast.Setting,
    graph: Graph,
    calls: Sequence[Node],
    said: dict[Dim, _Said],
    diagnostics: list[Diagnostic],
) -> None:
    model = _model_of(graph, calls[0])
    names = dict.fromkeys(
        dim.name
        for field in model.signature.params
        for dim in type_dims(field.type)
        if isinstance(dim, DimVar)
    )
    section = Section(Keys(f"`sizes` of `{calls[0].stage}`", tuple(names)), read.entries(sizes))
    found: dict[str, SizeRange] = {}
    for entry in read.entries(sizes):
        name = entry.key.text
        if name in names and name not in found:
            one = section.take(name, _range)
            if one is not None:
                found[name] = one
                section.diagnostics += _relate(entry, one, graph, calls, said)
    section.diagnostics += _unheld(sizes, model, found)
    diagnostics += section.finish()


def _range(setting: ast.Setting) -> SizeRange:
    """Read `[least, usual, most]`, or a number that is all three."""
    expr = read.value(setting)
    if not isinstance(expr, ast.ListLiteral):
        size = read.whole(setting, expr, least=0)
        return SizeRange(size, size, size)
    numbers = [read.whole(setting, item, least=0) for item in expr.items]
    if len(numbers) != 3:
        name = setting.key.text
        message = f"`{name}` wants three sizes: the least, the usual and the most"
        raise Mistake("HR405", message, expr.span, f"there are {len(numbers)}")
    if numbers != sorted(numbers):
        least, usual, most = sorted(numbers)
        message = f"`{setting.key.text}` goes from the least by the usual to the most"
        help = f"write `[{least}, {usual}, {most}]`"
        raise Mistake("HR406", message, expr.span, "TensorRT would drop such a profile", help)
    return SizeRange(*numbers)


def _relate(
    entry: ast.Setting,
    range: SizeRange,
    graph: Graph,
    calls: Sequence[Node],
    said: dict[Dim, _Said],
) -> Iterator[Diagnostic]:
    """Note what a name is in the pipeline, at each call; yield where that is said otherwise."""
    name = entry.key.text
    for dim in _meant(graph, calls, name):
        if isinstance(dim, int):
            if not range.least <= dim <= range.most:
                message = f"`{name}` of `{calls[0].stage}` is {dim} here"
                label = f"{range} has no {dim}"
                yield Mistake("HR406", message, entry.span, label).diagnostic
            continue
        before = said.setdefault(dim, _Said(range, name, calls[0].stage, entry.span))
        if before.range != range:
            message = (
                f"`{name}` of `{calls[0].stage}` is `{before.name}` of `{before.stage}`, which is "
                f"said to be {before.range}"
            )
            help = f"say {before.range} in both"
            yield Mistake("HR406", message, entry.span, f"here it is {range}", help).diagnostic


def declared_names(graph: Graph, stages: Sequence[str]) -> dict[Dim, str]:
    """Return how the models of some stages call the dimensions of the pipeline, as lowered."""
    calls = [call for call, _ in model_calls(graph.body) if call.stage in stages]
    return {
        given: declared.name
        for declared, given in _pairs(graph, calls)
        if isinstance(declared, DimVar)
    }


def _meant(graph: Graph, calls: Sequence[Node], name: str) -> dict[Dim, None]:
    """Return what a dimension of a model is in the pipeline, at its calls."""
    return {
        given: None
        for declared, given in _pairs(graph, calls)
        if isinstance(declared, DimVar) and declared.name == name
    }


def _pairs(graph: Graph, calls: Sequence[Node]) -> Iterator[tuple[Dim, Dim]]:
    """Yield each dimension that a model declares of its inputs, with what it is at a call."""
    for call in calls:
        params = _model_of(graph, call).signature.params
        for field, value in zip(params, call.inputs, strict=True):
            yield from zip(type_dims(field.type), type_dims(value.type), strict=False)


def _unheld(
    sizes: ast.Setting, model: ModelDef, found: Mapping[str, SizeRange]
) -> Iterator[Diagnostic]:
    """Yield the conditions of a model that its sizes do not keep."""
    entries = {entry.key.text: entry for entry in read.entries(sizes)}
    for check in model.where:
        names = {dim.name for side in (check.left, check.right) for dim in dim_names(side)}
        if not names or not names <= found.keys():
            continue
        for which in ("least", "usual", "most"):
            chosen = {name: getattr(found[name], which) for name in names}
            if not holds(check.left, check.op, check.right, chosen):
                told = ", ".join(f"`{name}` {size}" for name, size in sorted(chosen.items()))
                message = f"`{check.text}` does not hold for the {which}: {told}"
                entry = entries[sorted(names)[0]]
                yield Mistake(
                    "HR406", message, entry.span, f"`{model.name}` asks for it"
                ).diagnostic
                break


def _model_of(graph: Graph, call: Node) -> ModelDef:
    if not isinstance(call.kind, ModelCall):
        raise AssertionError(f"`{call.stage}` calls no model")
    return graph.model(call.kind.model)
