"""A graph as text: one line a node, types to the right, device and source line at the end.

```
%0 photo                   bytes               ocr.pipe:18
%1 image.decode(%0)        u8[h, w, 3]   cpu   ocr.pipe:21
-- segment detect · onnx · image.normalize + detect · batch off (...) --
%3 detect(%2)              f32[1, H, W]  sim   ocr.pipe:23
```

Literals stand where they are used; regions are indented below their node and end with what they
give (`-> %4 when %5`). Dimensions of one name that are not one size are told apart (`N`, `N'2`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..dsl.types import DimVar, Type
from .batch_points import BatchPoint, batch_points, service_of
from .dimensions import rename_dims
from .engine_sizes import graph_ranges
from .graph import (
    Constant,
    Emit,
    For,
    FunctionCall,
    Graph,
    If,
    Loop,
    Match,
    ModelCall,
    Node,
    Region,
    Together,
    Transfer,
    Try,
    Value,
)
from .model_kinds import ONNX
from .places import place_of
from .plan import ENGINES, ShapeRange
from .plan_text import literal_text
from .policy_text import describe_service, size_text
from .precision.report import describe
from .stage_settings import backend_of, calls_out, device_of, members_of, settings_of

WIDEST = 44  # columns; longer cells push the rest of their line to the right
INDENT = "    "


@dataclass(slots=True)
class Line:
    """Cells of a line with columns; a `note` stands by itself."""

    text: str
    types: str = ""
    device: str = ""
    place: str = ""
    note: bool = False


def explain_graph(graph: Graph, directory: Path, *, placed: bool = False) -> str:
    """Return the text of a graph; with `placed`, devices and the headers of segments as well."""
    writer = _Writer(graph, directory, placed, batch_points(graph) if placed else {})
    title = writer.title()
    count = len(graph.signature.params)
    writer.params(graph.body.params[:count], "")
    told = count + len(graph.controls)
    writer.params(graph.body.params[count:told], "sequence ")
    writer.params(graph.body.params[told:], "state ")
    writer.region(graph.body, "")
    return f"{title}\n{_aligned(writer.lines)}"


@dataclass(slots=True)
class _Writer:
    graph: Graph
    directory: Path
    placed: bool
    points: Mapping[Node, BatchPoint]
    lines: list[Line] = field(default_factory=list[Line])
    shown: dict[Value, str] = field(default_factory=dict[Value, str])
    made: int = 0
    names: dict[str, list[DimVar]] = field(default_factory=dict[str, list[DimVar]])

    def title(self) -> str:
        graph, signature = self.graph, self.graph.signature
        params = [
            f"{param.name}: {self._type(param.type)}"
            + (f" = {literal_text(literal, param.type)}" if known else "")
            for param, (known, literal) in zip(signature.params, graph.defaults, strict=True)
        ]
        results = [f"{result.name}: {self._type(result.type)}" for result in signature.results]
        batch = f" batch {graph.batch}" if graph.batch is not None else ""
        deadline = f" deadline {graph.deadline:g} s" if graph.deadline is not None else ""
        arrow = "-> stream" if graph.stream else "->"
        types = f"({', '.join(params)}) {arrow} ({', '.join(results)})"
        idle = f" per sequence idle {graph.idle:g} s" if graph.idle is not None else ""
        return f"pipeline {graph.name}{types}{batch}{deadline}{idle}"

    def params(self, values: tuple[Value, ...], indent: str) -> None:
        for value in values:
            place = str(place_of(value.span, self.directory)).rpartition(":")[0]
            text = f"{indent}{self._number(value)} {value.name}"
            self.lines.append(Line(text, self._type(value.type), "", place))

    def region(self, region: Region, indent: str, last: str = "") -> None:
        """`last` says what the region's last result is for, when it is no value it gives."""
        for node in region.nodes:
            if isinstance(node.kind, Constant):
                value = node.outputs[0]
                self.shown[value] = literal_text(node.kind.literal, value.type)
            else:
                self._node(node, indent)
        given = [self.shown[value] for value in region.results]
        if region is self.graph.body and self.graph.states:
            end = len(given) - len(self.graph.states)
            pairs = zip(self.graph.states, given[end:], strict=True)
            listed = ", ".join(f"{state.field.name} = {text}" for state, text in pairs)
            self.lines.append(Line(f"{indent}next {listed}", note=True))
            del given[end:]
        end = f" {last} {given.pop()}" if last else ""
        if given or not self.graph.stream:
            self.lines.append(Line(f"{indent}-> {', '.join(given)}{end}", note=True))

    def _node(self, node: Node, indent: str) -> None:
        if self.placed and calls_out(node):
            for line in self._header(node):
                self.lines.append(Line(f"{indent}{line}", note=True))
        inputs = [self.shown[value] for value in node.inputs]
        outputs = ", ".join(self._number(value) for value in node.outputs)
        types = ", ".join(self._type(value.type) for value in node.outputs)
        device = device_of(self.graph, node) if self.placed and not node.regions else ""
        if isinstance(node.kind, Transfer):
            device = node.kind.device
        place = str(place_of(node.span, self.directory)).rpartition(":")[0]
        what = _what(node, inputs)
        self.lines.append(
            Line(f"{indent}{outputs} {what}" if outputs else indent + what, types, device, place)
        )
        for check in node.checks:
            self.lines.append(Line(f"{indent}{INDENT}check {check.text}", note=True))
        self._regions(node, indent)

    def _regions(self, node: Node, indent: str) -> None:
        for index, region in enumerate(node.regions):
            heading = _heading(node, index)
            if heading:
                self.lines.append(Line(indent + heading, note=True))
            self.params(region.params, indent + INDENT)
            self.region(region, indent + INDENT, _last_result(node))

    def _header(self, node: Node) -> tuple[str, ...]:
        """Return the line of a segment, and one of how it is served where something is said."""
        point, settings = self.points[node], settings_of(self.graph, node)
        match node.kind:
            case FunctionCall(function=name):
                function = self.graph.function(name)
                what = f"{function.kind} · {function.location}"
            case ModelCall(model=name):
                members = " + ".join(members_of(self.graph, node))
                kind, runs = self.graph.model(name).backend, backend_of(self.graph, node)
                what = f"{kind if runs == kind else f'{kind} on {runs}'} · {members}"
                what += f" ({settings.stays})" if settings.stays else ""
            case _:
                raise AssertionError(f"`{node.stage}` is no segment of its own")
        service = service_of(settings, point)
        said = [*describe_service(service, settings.instances, settings.queueing)]
        said += self._arena(node)
        served = [f"--   {' · '.join(said)} --"] if said else []
        served += [f"--   engine for {one} --" for one in self._ranges(node, point)]
        served += [f"--   {one} --" for one in self._precisions(node)]
        return (f"-- segment {node.stage} · {what} · {point.why} --", *served)

    def _ranges(self, node: Node, point: BatchPoint) -> tuple[ShapeRange, ...]:
        """Return the sizes that an engine of a node is built for."""
        if not isinstance(node.kind, ModelCall) or backend_of(self.graph, node) not in ENGINES:
            return ()
        model = self.graph.model(node.kind.model)
        return graph_ranges(self.graph, model, point.batching, point.group)[0]

    def _arena(self, node: Node) -> list[str]:
        """Return what is said of the memory that ONNX Runtime takes of a GPU for itself."""
        device = device_of(self.graph, node)
        most = dict(self.graph.settings.memory).get(device)
        if most is None or not device.startswith("gpu:") or backend_of(self.graph, node) != ONNX:
            return []
        return [f"arena up to {size_text(most)}"]

    def _precisions(self, node: Node) -> tuple[str, ...]:
        """Return what became of each model in another precision than its file's."""
        match node.kind:
            case ModelCall(model=name):
                told = self.graph.model(name).precision
                return tuple(f"{one.stage} in {describe(one)}" for one in told)
            case _:
                return ()

    def _number(self, value: Value) -> str:
        self.shown[value] = f"%{self.made}"
        self.made += 1
        return self.shown[value]

    def _type(self, type: Type) -> str:
        return str(rename_dims(type, self._told_apart))

    def _told_apart(self, dim: DimVar) -> DimVar:
        if dim.name == "_":
            return dim  # no name to be told apart by
        same = self.names.setdefault(dim.name, [])
        if dim not in same:
            same.append(dim)
        index = same.index(dim)
        return DimVar(f"{dim.name}'{index + 1}") if index else DimVar(dim.name)


def _last_result(node: Node) -> str:
    match node.kind:
        case For(filtered=True):
            return "when"
        case Loop(stops=True):
            return "stop when"
        case _:
            return ""


def _what(node: Node, inputs: list[str]) -> str:
    match node.kind:
        case If():
            return f"if {inputs[0]}"
        case Match():
            return f"match {inputs[0]}"
        case For():
            return f"for {', '.join(inputs)}"
        case Loop():
            return f"loop ({', '.join(inputs[1:])}) max {inputs[0]}"
        case Try(within=within):
            return "try" if within is None else f"try within {within:g} s"
        case Together():
            return f"together: {len(node.regions)} at once"
        case Emit():
            return f"emit {', '.join(inputs)}"
        case Transfer(device=device):
            return f"copy {inputs[0]} to {device}"
        case _:
            return f"{node.stage}({', '.join(inputs)})"


def _heading(node: Node, index: int) -> str:
    match node.kind:
        case If() | Try():
            return "else" if index == 1 else ""
        case Match(cases=cases) if index < len(cases):
            return f"case {' | '.join(literal_text(literal) for literal in cases[index])}"
        case Match():
            return "else"
        case Together() if index:
            return "and"
        case _:
            return ""


def _aligned(lines: list[Line]) -> str:
    widths = [
        max((len(cell) for cell in cells if len(cell) <= WIDEST), default=0)
        for cells in (
            [line.text for line in lines if not line.note],
            [line.types for line in lines if not line.note],
            [line.device for line in lines if not line.note],
        )
    ]
    shown: list[str] = []
    for line in lines:
        if line.note:
            shown.append(line.text)
            continue
        cells = [line.text.ljust(widths[0]), line.types.ljust(widths[1])]
        cells += [line.device.ljust(widths[2])] if widths[2] else []
        shown.append("  ".join((*cells, line.place)).rstrip())
    return "\n".join(shown) + "\n"
