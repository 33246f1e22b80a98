"""`fn ... = python "file.py:name"`: the file is read, its functions are looked at, nothing runs."""

import ast as python

from ...dsl import ast
from ...dsl.types import UNKNOWN
from ..graph import FunctionDef
from .constants import read_defaults
from .entities import Entity, File, Mistaken, NamedFunction
from .problems import Problems
from .python_source import PythonFile, read_python, require_arguments
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
    found = read_python(external.location, "function", file, problems)
    if found is None or not _fits(found, len(signature.params), external.location, problems):
        return Mistaken()
    if problems.errors > before:
        return Mistaken()
    if any(field.type == UNKNOWN for field in (*signature.params, *signature.results)):
        return Mistaken()
    definition = FunctionDef(
        name=file.prefix + item.name.text,
        signature=signature,
        kind="python",
        location=external.location.value,
        attribute=found.attribute,
        source=blob(found.content),
        span=item.name.span,
        batched=external.batched,
        pure=external.pure,
    )
    return NamedFunction(definition, defaults)


def _fits(found: PythonFile, arguments: int, location: ast.String, problems: Problems) -> bool:
    definition = found.definition
    if isinstance(definition, python.AsyncFunctionDef):
        problems.error(
            "HR309", f"`{found.attribute}` is `async`, which stages are not", location.span
        )
        return False
    if not isinstance(definition, python.FunctionDef):
        return True  # imported or computed: what it takes is seen when it runs
    return require_arguments(
        definition.args, 0, arguments, found, definition.lineno, location, problems
    )
