"""Python files that a source names: read and looked at, never run."""

import ast as python
from dataclasses import dataclass
from pathlib import Path

from ...dsl import ast
from ...dsl.nearest import nearest
from ..assets import Missing, locate
from .entities import File
from .problems import Problems


@dataclass(frozen=True, slots=True)
class PythonFile:
    """A file and the statement that gives the name which the source asks for."""

    path: Path
    content: bytes
    attribute: str
    definition: python.stmt
    tree: python.Module


def read_python(
    location: ast.String, what: str, file: File, problems: Problems, *, needed: bool = True
) -> PythonFile | None:
    """Read `file.py:name`, which is to be a `what`; None after a mistake, or when the file is not
    there and not `needed`."""
    path_text, colon, attribute = location.value.rpartition(":")
    if not colon or not path_text.endswith(".py") or not attribute.isidentifier():
        problems.error(
            "HR308",
            f"`{location.value}` does not name a {what} in a Python file",
            location.span,
            help=f'write `"file.py:{what}"`',
        )
        return None
    try:
        path = locate(path_text, file.source.directory)
        content = path.read_bytes()
        tree = python.parse(content, filename=path.name)
    except Missing as missing:
        if not needed:
            return None
        code = "HR313" if missing.package else "HR308"
        meant = f'did you mean `"{missing.meant}:{attribute}"`?' if missing.meant else None
        problems.error(code, missing.message, location.span, help=meant or missing.help)
    except OSError as error:
        problems.error("HR308", f"`{path_text}` cannot be read: {error.strerror}", location.span)
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        problems.error("HR310", f"`{path_text}` is not Python{line}: {text}", location.span)
    else:
        names = _top_level(tree)
        if attribute in names:
            return PythonFile(path, content, attribute, names[attribute], tree)
        other = python.FunctionDef | python.AsyncFunctionDef if what == "class" else python.ClassDef
        near = nearest(
            attribute, [name for name, one in names.items() if not isinstance(one, other)]
        )
        problems.error(
            "HR309",
            f"`{path.name}` has no {what} `{attribute}`",
            location.span,
            help=f'did you mean `"{path_text}:{near}"`?' if near else None,
        )
    return None


def require_arguments(
    taken: python.arguments,
    bound: int,
    given: int,
    found: PythonFile,
    line: int,
    location: ast.String,
    problems: Problems,
    *,
    told: bool,
) -> bool:
    """Report a function that does not take `given` arguments behind the `bound` first ones, and
    with `told` the request behind them."""
    least, most = _arity(taken)
    bound += told
    least, most = max(0, least - bound), None if most is None else most - bound
    if given >= least and (most is None or given <= most):
        return True
    takes = f"{least}" if most == least else f"{least} to {most or 'any number of'}"
    problems.error(
        "HR322",
        f"`{found.attribute}` takes {takes} argument{'s' * (takes != '1')}, but "
        f"{given} {'is' if given == 1 else 'are'} declared",
        location.span,
        notes=(f"see line {line} of `{found.path.name}`",),
    )
    return False


def _top_level(tree: python.Module) -> dict[str, python.stmt]:
    """Return the statement that gives each name of the file; those within `if` and `try` too."""
    found: dict[str, python.stmt] = {}
    for node in _statements(tree.body):
        match node:
            case python.FunctionDef() | python.AsyncFunctionDef() | python.ClassDef():
                found[node.name] = node
            case python.Assign(targets=targets):
                for target in targets:
                    if isinstance(target, python.Name):
                        found[target.id] = node
            case python.AnnAssign(target=python.Name(id=name)):
                found[name] = node
            case python.Import(names=names) | python.ImportFrom(names=names):
                for alias in names:
                    found[alias.asname or alias.name] = node
            case _:
                pass
    return found


def _statements(body: list[python.stmt]) -> list[python.stmt]:
    found: list[python.stmt] = []
    for node in body:
        found.append(node)
        if isinstance(node, python.If):
            found += _statements(node.body) + _statements(node.orelse)
        elif isinstance(node, python.Try):
            handlers = [one for handler in node.handlers for one in _statements(handler.body)]
            found += _statements(node.body) + handlers + _statements(node.orelse)
    return found


def _arity(arguments: python.arguments) -> tuple[int, int | None]:
    """Return the least and most positional arguments, None for any number."""
    positional = len(arguments.posonlyargs) + len(arguments.args)
    least = positional - len(arguments.defaults)
    return least, None if arguments.vararg else positional
