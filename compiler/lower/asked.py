"""Python functions and classes that ask for the request that they serve.

One does so by its last parameter, whose type is `headrace.Context`, or a list of such where it is
given the rows of a batch. It stands behind those for the arguments. Seen is what the file shows.
"""

import ast as python
from collections.abc import Set
from dataclasses import dataclass
from typing import Literal as OneOf

from ...dsl import ast
from .problems import Problems
from .python_source import PythonFile


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameter that is to be the request, at position `index`, None: by keyword only."""

    name: str
    many: bool
    index: int | None
    line: int


def find_asked(taken: python.arguments, tree: python.Module) -> Asked | None:
    """Return the parameter of a function that asks for the request."""
    names = _context_names(tree)
    positional = [*taken.posonlyargs, *taken.args]
    for index, one in enumerate([*positional, *taken.kwonlyargs]):
        kind = _kind(one.annotation, names)
        if kind is not None:
            at = index if index < len(positional) else None
            return Asked(one.arg, kind == "many", at, one.lineno)
    return None


def require_asked(
    asked: Asked,
    index: int,
    found: PythonFile,
    location: ast.String,
    problems: Problems,
    *,
    batched: bool,
    pure: bool = False,
) -> bool:
    """Report a request that is asked for not at position `index`, or as what is not given."""
    if asked.index != index:
        message = f"the request comes behind the arguments, and `{asked.name}` does not stand there"
        help = f"make `{asked.name}` the last parameter that is given by position"
    elif asked.many != batched:
        given = "a list of requests, one a row" if batched else "one request"
        kind = "list[headrace.Context]" if batched else "headrace.Context"
        message = (
            f"`{found.attribute}` gets {given}, and `{asked.name}` is declared as another thing"
        )
        help = f"declare it as `{asked.name}: {kind}`"
    elif pure:
        message = f"`{found.attribute}` is declared `pure`, and asks for the request that it serves"
        help = "leave `pure` out: what it gives does not follow from its arguments alone"
    else:
        return True
    note = f"see line {asked.line} of `{found.path.name}`"
    problems.error("HR326", message, location.span, notes=(note,), help=help)
    return False


def _context_names(tree: python.Module) -> set[str]:
    """Return how the file may write `headrace.Context`."""
    found: set[str] = set()
    for node in python.walk(tree):
        match node:
            case python.Import(names=names):
                own = [one.asname or one.name for one in names if one.name == "headrace"]
                found |= {f"{one}.Context" for one in own}
            case python.ImportFrom(module="headrace", level=0, names=names):
                found |= {one.asname or one.name for one in names if one.name == "Context"}
            case _:
                pass
    return found


def _kind(annotation: python.expr | None, names: Set[str]) -> OneOf["one", "many"] | None:
    """Tell whether a type is a context, perhaps an optional one, or a list of them."""
    match annotation:
        case python.Constant(value=str() as text):
            try:
                return _kind(python.parse(text, mode="eval").body, names)
            except SyntaxError:
                return None
        case python.BinOp(left=left, op=python.BitOr(), right=right):
            return _kind(left, names) or _kind(right, names)
        case python.Subscript(value=outer, slice=inner) if _kind(inner, names) is not None:
            return "one" if python.unparse(outer).endswith("Optional") else "many"
        case python.Name() | python.Attribute() if python.unparse(annotation) in names:
            return "one"
        case _:
            return None
