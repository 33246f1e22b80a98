"""`test` items: that they name a pipeline, its parameters and stages, and call what there is."""

from collections.abc import Iterator
from dataclasses import fields
from typing import cast

from ...dsl import ast
from ...dsl.nearest import nearest
from ...stdlib.catalog import Catalog
from ..assets import LOADERS
from ..graph import FunctionCall, Graph, ModelCall, OpCall, Region
from .entities import File, Mistaken, Routine
from .problems import Problems, did_you_mean
from .type_expressions import SCALARS


def check_test(test: ast.Test, file: File, catalog: Catalog, problems: Problems) -> None:
    """Report names in a test that its pipeline does not have, calls of what no test evaluates, and
    note the modules it uses."""
    for step in test.steps:
        for name in _names(step):
            file.used.add(name)
    routine = file.find(test.pipeline.text)
    if isinstance(routine, Mistaken):
        return
    if not isinstance(routine, Routine) or routine.kind != "pipeline":
        pipelines = [
            name
            for name, one in file.entities.items()
            if isinstance(one, Routine) and one.kind == "pipeline"
        ]
        problems.error(
            "HR117",
            f"there is no pipeline `{test.pipeline.text}` to test",
            test.pipeline.span,
            help=did_you_mean(test.pipeline.text, pipelines),
        )
        return
    params = [field.name for field in routine.signature.params]
    for step in test.steps:
        if isinstance(step, ast.Given) and step.name.text not in params:
            problems.error(
                "HR118",
                f"`{routine.name}` has no parameter `{step.name.text}`",
                step.name.span,
                help=did_you_mean(step.name.text, params),
            )
        if isinstance(step, ast.Stub) and routine.graph is not None:
            _check_stub(step, routine.graph, problems)
        for part in _parts(step):
            if isinstance(part, ast.Call):
                _check_call(part, catalog, problems, ran=isinstance(step, ast.Expect))
        if isinstance(step, ast.Expect):
            _check_expect(step, routine, problems)


def _check_call(call: ast.Call, catalog: Catalog, problems: Problems, *, ran: bool) -> None:
    """Report a call of what no test evaluates; `ran` says that the pipeline has run by then."""
    name = "".join(call.callee.span.text.split())
    family, _, op = name.rpartition(".")
    known = ["file", "len", *LOADERS, *(["calls"] if ran else [])]
    if name in known or catalog.find(family or None, op) is not None:
        return
    message = f"a test cannot call `{name}`"
    near = nearest(name, known) or catalog.nearest(family or None, op)
    if name == "calls":
        message, near = "`calls` counts what has run: it stands in an `expect`", None
    help = f"did you mean `{near}`?" if near is not None else None
    problems.error("HR118", message, call.callee.span, help=help)


def _check_expect(step: ast.Expect, routine: Routine, problems: Problems) -> None:
    values = [field.name for field in (*routine.signature.params, *routine.signature.results)]
    stages = [name for name, _ in _stages(routine.graph)] if routine.graph is not None else None
    for part in _parts(step.condition):
        if isinstance(part, ast.Name) and part.text not in values and part.text not in SCALARS:
            problems.error(
                "HR118",
                f"`{routine.name}` has no parameter and no result `{part.text}`",
                part.span,
                help=did_you_mean(part.text, values),
            )
        if isinstance(part, ast.Call) and stages is not None and part.callee.span.text == "calls":
            for argument in part.arguments:
                name = argument.value.span.text
                if name not in stages:
                    problems.error(
                        "HR118",
                        f"`{routine.name}` has no stage `{name}`",
                        argument.value.span,
                        help=did_you_mean(name, stages),
                    )


def _parts(node: object) -> Iterator[ast.Name | ast.Call]:
    """Yield the calls in an expression, and the names that stand for values."""
    if isinstance(node, tuple):
        for part in cast("tuple[object, ...]", node):  # isinstance tells no items
            yield from _parts(part)
    elif isinstance(node, ast.Call):
        yield node
        if node.callee.span.text != "calls":
            yield from _parts(node.arguments)
    elif isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.Node):
        for one in fields(node):
            yield from _parts(getattr(node, one.name))


def _names(node: object) -> Iterator[str]:
    """Yield the names in a part of a tree."""
    if isinstance(node, tuple):
        for part in cast("tuple[object, ...]", node):  # isinstance tells no items
            yield from _names(part)
    elif isinstance(node, ast.Name):
        yield node.text
    elif isinstance(node, ast.Node):
        for one in fields(node):
            yield from _names(getattr(node, one.name))


def _check_stub(step: ast.Stub, graph: Graph, problems: Problems) -> None:
    stages = dict(_stages(graph))
    name = step.stage.text
    if name not in stages:
        problems.error(
            "HR118",
            f"`{graph.name}` has no stage `{name}`",
            step.stage.span,
            help=did_you_mean(name, stages),
        )
        return
    for field in step.fields:
        if field.name is not None and field.name.text not in stages[name]:
            problems.error(
                "HR118",
                f"`{name}` has no result `{field.name.text}`",
                field.name.span,
                help=did_you_mean(field.name.text, stages[name]),
            )


def _stages(graph: Graph) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the stages of a pipeline with the names of their results."""

    def walk(region: Region) -> Iterator[tuple[str, tuple[str, ...]]]:
        for node in region.nodes:
            match node.kind:
                case ModelCall(model=name):
                    results = graph.model(name).signature.results
                    yield node.stage, tuple(field.name for field in results)
                case FunctionCall(function=name):
                    results = graph.function(name).signature.results
                    yield node.stage, tuple(field.name for field in results)
                case OpCall(op=op):
                    yield node.stage, op.results
                case _:
                    pass
            for inner in node.regions:
                yield from walk(inner)

    yield from walk(graph.body)
