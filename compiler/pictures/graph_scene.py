"""A graph, as it was lowered, to the scene of its picture."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..graph import (
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
from ..places import place_of
from ..plan_text import literal_text
from .scene import Card, Frame, Item, Look, Scene
from .sketch import Part, Sketch, Words, shortened, types_of


def graph_scene(title: str, graphs: Sequence[Graph], directory: Path) -> Scene:
    """Return the picture of pipelines as lowered; places name files from `directory`."""
    sketch = Sketch()
    frames = tuple(_Drawing(graph, directory, sketch).frame() for graph in graphs)
    return Scene(title, frames, sketch.wires())


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One walk over a graph."""

    graph: Graph
    directory: Path
    sketch: Sketch

    def frame(self) -> Frame:
        graph, body = self.graph, self.graph.body
        items: list[Item] = []
        for value, param, (known, literal) in zip(
            body.params, graph.signature.params, graph.defaults, strict=False
        ):
            default = (shortened(f"= {literal_text(literal, param.type)}"),) if known else ()
            card = Card(Look.INPUT, param.name, (str(param.type), *default))
            items.append(self.sketch.card(card, (), _said((value,))))
        for value, told in zip(
            body.params[len(graph.signature.params) :], graph.controls, strict=False
        ):
            card = Card(Look.INPUT, f"sequence.{told.name}", (str(value.type),))
            items.append(self.sketch.card(card, (), _said((value,))))
        kept = len(graph.states)
        for value in body.params[len(body.params) - kept :]:
            card = Card(Look.INPUT, f"state {value.name}", (str(value.type),))
            items.append(self.sketch.card(card, (), _said((value,))))
        items += self._region(body)
        for value, state in zip(
            body.results[len(body.results) - kept :], graph.states, strict=True
        ):
            card = Card(Look.OUTPUT, f"next {state.field.name}", (str(state.field.type),))
            items.append(self.sketch.card(card, (value,), {}))
        given = body.results[: len(body.results) - kept]  # nothing in a stream
        for value, result in zip(given, graph.signature.results, strict=False):
            card = Card(Look.OUTPUT, result.name, (str(result.type),))
            items.append(self.sketch.card(card, (value,), {}))
        parts = [f"batch {graph.batch}"] if graph.batch is not None else []
        parts += [f"deadline {graph.deadline * 1e3:g} ms"] if graph.deadline is not None else []
        parts += [f"per sequence, idle {graph.idle:g} s"] if graph.idle is not None else []
        details = f"{graph.name}{graph.signature}"
        return Frame(f"pipeline {graph.name}", tuple(items), tuple(parts), details)

    def _region(self, region: Region) -> list[Item]:
        items: list[Item] = []
        for node in region.nodes:
            if isinstance(node.kind, Constant):
                value = node.outputs[0]
                self.sketch.literal(value, literal_text(node.kind.literal, value.type))
                continue
            items.append(self._control(node) if node.regions else self._call(node))
            items += [
                self.sketch.card(
                    Card(Look.CHECK, shortened(check.text), details=self._details(node)),
                    node.outputs,
                    {},
                )
                for check in node.checks
            ]
        return items

    def _call(self, node: Node) -> Card:
        return self.sketch.card(self._card(node), node.inputs, _said(node.outputs))

    def _card(self, node: Node) -> Card:
        types = types_of([value.type for value in node.outputs])
        details = self._details(node)
        match node.kind:
            case ModelCall(model=name):
                model = self.graph.model(name)
                details = f"{details}\n{model.location}{model.signature}"
                return Card(Look.MODEL, node.stage, (model.backend, types), details=details)
            case FunctionCall(function=name):
                function = self.graph.function(name)
                location = shortened(f"{function.kind} · {function.location}")
                return Card(Look.FUNCTION, node.stage, (location, types), details=details)
            case Emit():
                return Card(Look.OUTPUT, "emit", details=details)
            case Transfer(device=device):
                return Card(Look.COPY, f"copy to {device}", (types,), device, details=details)
            case _:
                return Card(Look.OP, node.stage, (types,), details=details)

    def _control(self, node: Node) -> Frame:
        words, headings = _words(node, self._details(node))
        parts = [
            Part(heading, _said(region.params), partial(self._region, region), region.results)
            for heading, region in zip(headings, node.regions, strict=True)
        ]
        types = [value.type for value in node.outputs]
        return self.sketch.control(words, node.inputs, _said(node.outputs), types, parts)

    def _details(self, node: Node) -> str:
        place = place_of(node.span, self.directory)
        return f"{place}\n{place.text.strip()}"


def _words(node: Node, details: str) -> tuple[Words, Sequence[str]]:
    """Return how a node with regions is called, and the headings of its regions."""
    match node.kind:
        case If():
            return Words("if", "if", "either", details, True), ("then", "else")
        case Match(cases=cases):
            headings = [
                f"case {shortened(' | '.join(literal_text(literal) for literal in case))}"
                for case in cases
            ]
            return Words("match", "match", "either", details, True), (*headings, "else")
        case For(filtered=filtered):
            end = "those kept" if filtered else "all of them"
            return Words("for", "each", end, details, False), ("",)
        case Loop():
            return Words("loop", "again", "in the end", details, False), ("",)
        case Try():
            return Words("try", "try", "either", details, True), ("body", "else")
        case Together():
            headings = [f"arm {number}" for number in range(1, len(node.regions) + 1)]
            return Words("together", "at once", "all of them", details, True), headings
        case _:
            headings = [f"part {number}" for number in range(1, len(node.regions) + 1)]
            return Words(node.stage, node.stage, "then", details, False), headings


def _said(values: Sequence[Value]) -> Mapping[Hashable, str]:
    return {value: f"{value.name}: {value.type}" for value in values}
