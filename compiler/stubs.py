"""Stages that tests replace: a call becomes a Python function that returns what the stub says.

    before  %3 angle(%2)      a model whose file may be missing
    after   %3 angle(%2)      the same stage, as `def stub(*_): return [0.02, 0.98]`

The stage keeps its name, so that its calls are counted, and its types, so that what the stub gives
is checked like any result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeAlias

from ..dsl.types import Field, Signature
from .graph import Blob, FunctionCall, FunctionDef, Graph, ModelCall, Node, OpCall, Region

Given: TypeAlias = Sequence[tuple[str | None, str]]
"""A stub's results as Python text, by name, or by position where the name is None."""

Stubs: TypeAlias = Mapping[str, Given]
"""Stubs by stage."""


def stub_stages(graph: Graph, stubs: Stubs) -> Graph:
    """Return the graph with all calls of stubbed stages replaced."""
    work = _Stubbing(graph, stubs)
    body = work.region(graph.body)
    return replace(graph, body=body, functions=(*graph.functions, *work.functions))


@dataclass(slots=True)
class _Stubbing:
    graph: Graph
    stubs: Stubs
    functions: list[FunctionDef] = field(default_factory=list[FunctionDef])

    def region(self, region: Region) -> Region:
        return replace(region, nodes=tuple(self._node(node) for node in region.nodes))

    def _node(self, node: Node) -> Node:
        regions = tuple(self.region(inner) for inner in node.regions)
        if regions != node.regions:
            node = replace(node, regions=regions)
        names = self._result_names(node)
        if names is None or node.stage not in self.stubs:
            return node
        name = f"stub {len(self.functions)} of {node.stage}"
        content = _source(node.stage, names, self.stubs[node.stage]).encode()
        self.functions.append(
            FunctionDef(
                name=name,
                signature=Signature(
                    tuple(Field(value.name, value.type) for value in node.inputs),
                    tuple(Field(n, v.type) for n, v in zip(names, node.outputs, strict=True)),
                ),
                kind="python",
                location="<stub>:stub",
                attribute="stub",
                source=Blob(sha256(content).hexdigest(), content),
                span=node.span,
            )
        )
        return replace(node, kind=FunctionCall(name))

    def _result_names(self, node: Node) -> tuple[str, ...] | None:
        match node.kind:
            case ModelCall(model=name):
                return tuple(one.name for one in self.graph.model(name).signature.results)
            case FunctionCall(function=name):
                return tuple(one.name for one in self.graph.function(name).signature.results)
            case OpCall(op=op):
                return op.results
            case _:
                return None


def _source(stage: str, names: Sequence[str], given: Given) -> str:
    """Return Python that gives the results in order; one that is missing is told when it runs."""
    texts = {name or names[i]: text for i, (name, text) in enumerate(given) if i < len(names)}
    missing = [name for name in names if name not in texts]
    if missing:
        said = f"the stub of `{stage}` gives no `{missing[0]}`"
        return f"def stub(*_):\n    raise ValueError({said!r})\n"
    values = ", ".join(texts[name] for name in names)
    return f"from math import inf, nan\n\ndef stub(*_):\n    return {values}\n"
