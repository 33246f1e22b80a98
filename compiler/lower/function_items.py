"""`fn ... = python "file.py:name"`: the file is read, its functions are looked at, nothing runs."""

import ast as python
from pathlib import Path

from ...dsl import ast
from ...dsl.nearest import nearest
from ...dsl.types import UNKNOWN
from ..assets import Missing, locate
from ..graph import FunctionDef
from .constants import read_defaults
from .entities import Entity, File, Mistaken, NamedFunction
from .problems import Problems
from .refused import report_unserved
from .session import Session, blob
from .type_expressions import read_signature


def read_function(item: ast.Fn, external: ast.External, file: File, session: Session) -> Entity:
    """Return the function an item declares, `Mistaken` after a mistake in it."""
    problems, before = session.problems, session.problems.errors
    if external.kind != "python":
        report_unserved(external.kind, external.span, problems)
        return Mistaken()
    signature = read_signature(item.params, item.results, file, problems)
    if not signature.results:
        problems.error("HR211", f"`{item.name.text}` gives nothing", item.name.span, "no results")
    defaults = read_defaults(item.params, signature.params, file, session)
    content = _read(external.location, len(signature.params), file, problems)
    if content is None or problems.errors > before:
        return Mistaken()
    if any(field.type == UNKNOWN for field in (*signature.params, *signature.results)):
        return Mistaken()
    definition = FunctionDef(
        name=file.prefix + item.name.text,
        signature=signature,
        kind="python",
        location=external.location.value,
        attribute=external.location.value.rpartition(":")[2],
        source=blob(content),
        span=item.name.span,
        batched=external.batched,
        pure=external.pure,
    )
    return NamedFunction(definition, defaults)


def _read(location: ast.String, arguments: int, file: File, problems: Problems) -> bytes | None:
    """Return the file's text, in which the function was found; None after a mistake."""
    path_text, colon, attribute = location.value.rpartition(":")
    if not colon or not path_text.endswith(".py") or not attribute.isidentifier():
        problems.error(
            "HR308",
            f"`{location.value}` does not name a function in a Python file",
            location.span,
            help='write `"file.py:function"`',
        )
        return None
    try:
        path = locate(path_text, file.source.directory)
        content = path.read_bytes()
        tree = python.parse(content, filename=path.name)
    except Missing as missing:
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
        return content if _has(tree, path, attribute, arguments, location, problems) else None
    return None


def _has(
    tree: python.Module,
    path: Path,
    attribute: str,
    arguments: int,
    location: ast.String,
    problems: Problems,
) -> bool:
    names = _top_level(tree)
    if attribute not in names:
        meant = nearest(attribute, names)
        file = location.value.rpartition(":")[0]
        problems.error(
            "HR309",
            f"`{path.name}` has no function `{attribute}`",
            location.span,
            help=f'did you mean `"{file}:{meant}"`?' if meant else None,
        )
        return False
    definition = names[attribute]
    if isinstance(definition, python.AsyncFunctionDef):
        problems.error("HR309", f"`{attribute}` is `async`, which stages are not", location.span)
        return False
    if isinstance(definition, python.FunctionDef):
        least, most = _arity(definition.args)
        if arguments < least or (most is not None and arguments > most):
            takes = f"{least}" if most == least else f"{least} to {most or 'any number of'}"
            problems.error(
                "HR322",
                f"`{attribute}` takes {takes} argument{'s' * (takes != '1')}, but "
                f"{arguments} {'is' if arguments == 1 else 'are'} declared",
                location.span,
                notes=(f"see line {definition.lineno} of `{path.name}`",),
            )
            return False
    return True


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
