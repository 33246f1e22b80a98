"""Sources as text to graphs and mistakes, for the tests of the checker."""

from collections.abc import Iterator
from pathlib import Path

from headrace.compiler.graph import Constant, Graph, Node, Region
from headrace.compiler.lower import Lowered, lower
from headrace.compiler.verify import verify
from headrace.dsl.diagnostic import Severity
from headrace.dsl.parse import parse
from headrace.dsl.render import render
from headrace.dsl.source import Source
from headrace.dsl.types import Type


def lowered(text: str, folder: Path | None = None, *, need_models: bool = False) -> Lowered:
    """Lower a source that may be wrong; `folder` is where its files are."""
    source = Source("p.pipe", text, (folder or Path("/nowhere")) / "p.pipe")
    return lower(parse(source), source, need_models=need_models)


def graph_of(text: str, folder: Path | None = None, *, need_models: bool = False) -> Graph:
    """Return the last pipeline's graph, verified; mistakes and warnings fail the test."""
    result = lowered(text, folder, need_models=need_models)
    assert render(result.diagnostics) == ""
    for graph in result.graphs:
        verify(graph)
    return result.graphs[-1]


def found_in(text: str, folder: Path | None = None, *, need_models: bool = False) -> list[str]:
    """Return what is found as `code line:column`, errors and warnings, in order."""
    return [
        f"{one.code} {one.primary.span.line}:{one.primary.span.column}"
        for one in lowered(text, folder, need_models=need_models).diagnostics
    ]


def errors_in(text: str, folder: Path | None = None, *, need_models: bool = False) -> list[str]:
    """Return the messages of all errors, in order."""
    return [
        one.message
        for one in lowered(text, folder, need_models=need_models).diagnostics
        if one.severity is Severity.ERROR
    ]


def nodes_in(region: Region) -> Iterator[Node]:
    """Yield all nodes but literals, those of nested regions after the node they belong to."""
    for node in region.nodes:
        if not isinstance(node.kind, Constant):
            yield node
        for inner in node.regions:
            yield from nodes_in(inner)


def stages(graph: Graph) -> list[str]:
    return [node.stage for node in nodes_in(graph.body)]


def stage(graph: Graph, name: str) -> Node:
    return next(node for node in nodes_in(graph.body) if node.stage == name)


def literals_of(graph: Graph, name: str) -> dict[str, object]:
    """Return the literals that the first node of a stage is given, by the input's name."""
    made = {
        output: node.kind.literal
        for node in _all(graph.body)
        if isinstance(node.kind, Constant)
        for output in node.outputs
    }
    return {value.name: made[value] for value in stage(graph, name).inputs if value in made}


def results(graph: Graph) -> list[Type]:
    return [value.type for value in graph.body.results]


def _all(region: Region) -> Iterator[Node]:
    for node in region.nodes:
        yield node
        for inner in node.regions:
            yield from _all(inner)
