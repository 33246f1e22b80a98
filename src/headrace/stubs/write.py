"""The text of a stub: the same pipelines give the same bytes, formatted as ruff does."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..compiler.plan import Parameter, PipelinePlan
from ..runtime.accept import show_signature
from ..runtime.literals import plain_literal
from ..stdlib.op import Literal
from .annotations import given, taken
from .names import OF_TUPLES, USED, class_name, python_names

_OPTIONS: Final = {
    "timeout": "float | None",
    "priority": "int | None",
    "parameters": "stubs.Parameters | None",
    "id": "str | None",
}
_IMPORTS: Final = (
    ("collections.abc", ("Iterator", "Sequence")),
    ("typing", ("Any", "NamedTuple")),
)


@dataclass(frozen=True, slots=True)
class Described:
    """A pipeline as the template shows it."""

    name: str
    method: str
    kind: str
    signature: str
    docstring: str
    answer: str
    answer_docstring: str
    returns: str
    inputs: Sequence[tuple[str, str, str]]
    results: Sequence[tuple[str, str]]
    renamed: Sequence[tuple[str, str]]


def write_stub(pipelines: Sequence[PipelinePlan], source: str, version: str, name: str) -> str:
    """Return the module; `source` and `version` say of what it was made, `name` gives its class
    one."""
    methods = python_names((one.name for one in pipelines), {*USED, "pipelines_"})
    classes = {"Any", "Iterator", "NDArray", "NamedTuple", "Sequence"}
    client = class_name(name, "Client", classes)
    described = [_described(one, methods[one.name], classes) for one in pipelines]
    template = Environment(
        loader=PackageLoader("headrace.stubs", ""),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    ).get_template("module.py.j2")

    def render(imports: Sequence[str]) -> str:
        return template.render(
            docstring=_docstring(
                f"The pipelines of {source}, with their types.\n\n"
                "Written by `headrace client`; write it anew when they change.",
                "",
            ),
            imports=imports,
            version=_quoted(version),
            pipelines=described,
            class_name=client,
        )

    return render(_imports(render(())))


def _imports(body: str) -> list[str]:
    """Return the imports that a module needs, in ruff's order."""

    def used(name: str) -> bool:
        code = re.sub(r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\]|\\.)*"', "", body, flags=re.DOTALL)
        return re.search(rf"(?<![\w.]){name}(?!\w)", code) is not None

    standard = [
        f"from {module} import {', '.join(found)}"
        for module, names in _IMPORTS
        if (found := [one for one in names if used(one)])
    ]
    numpy = ["import numpy as np"] if used("np") else []
    numpy += ["from numpy.typing import NDArray"] if used("NDArray") else []
    groups = [standard, numpy, ["from headrace import stubs"]]
    return [line for group in groups if group for line in ("", *group)]


def _described(plan: PipelinePlan, method: str, classes: set[str]) -> Described:
    many = plan.batch is not None
    kind = {
        (False, False): "pipeline",
        (True, False): "stream",
        (False, True): "sequence",
        (True, True): "stream_sequence",
    }[plan.stream, plan.idle is not None]
    inputs = python_names((one.field.name for one in plan.parameters), ("self",))
    options = [one for one in _OPTIONS if one not in inputs]
    # an input that is renamed cannot have the name of an option, which are good names
    results = python_names((one.name for one in plan.results), USED | OF_TUPLES)
    answer = class_name(plan.name, "Answer", classes)
    signature = show_signature(plan)
    lines = [f"{one.field}{_shown_default(one)}" for one in plan.parameters]
    return Described(
        _quoted(plan.name),
        method,
        kind,
        _quoted(signature),
        _docstring(
            "\n".join([f"`{plan.name}` takes", "", *lines]) if lines else signature, " " * 8
        ),
        answer,
        _docstring("\n".join([f"What `{plan.name}` gives:", "", *map(str, plan.results)]), " " * 4),
        f"Iterator[{answer}]" if plan.stream else answer,
        [
            *(
                (inputs[one.field.name], taken(one.field.type, many=many), _default(one, many))
                for one in plan.parameters
            ),
            *((one, _OPTIONS[one], " = None") for one in options),
        ],
        [(results[one.name], given(one.type, many=many)) for one in plan.results],
        [(made, _quoted(name)) for name, made in inputs.items() if made != name],
    )


def _default(parameter: Parameter, many: bool) -> str:
    if not parameter.has_default:
        return ""
    return " = stubs.LEFT_OUT" if many else f" = {_python(parameter.default)}"


def _shown_default(parameter: Parameter) -> str:
    return f", {_python(parameter.default)} where it is left out" if parameter.has_default else ""


def _python(literal: Literal) -> str:
    match plain_literal(literal):
        case tuple() as items:
            inner = ", ".join(map(_python, items))
            return f"({inner},)" if len(items) == 1 else f"({inner})"
        case float() as number:
            return repr(number) if isfinite(number) else f'float("{number}")'
        case str() | bytes() as text:
            return _quoted(text)
        case other:
            return repr(other)


def _quoted(text: str | bytes) -> str:
    """Return a literal of a text, in the quotes that ruff prefers."""
    made = repr(text)
    quote = made[-1]
    prefix, _, inner = made[:-1].partition(quote)
    if quote == "'":
        inner = inner.replace("\\'", "'")
    # the other quotes are taken where that leaves fewer to be escaped
    best = "'" if inner.count('"') > inner.count("'") else '"'
    return f"{prefix}{best}{inner.replace(best, chr(92) + best)}{best}"


def _docstring(text: str, indent: str) -> str:
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    lines = text.split("\n")
    if len(lines) == 1:
        return f'"""{text}"""'
    return "\n".join(
        [f'"""{lines[0]}', *(f"{indent}{one}".rstrip() for one in lines[1:]), f'{indent}"""']
    )
