"""`fn ... = python "file.py:name"`: the file is read, its functions are looked at, nothing runs.
`fn ... = native "library.so:symbol"`: the library goes into the plan as it is."""

import ast as python

from ...dsl import ast
from ...dsl.types import UNKNOWN, Signature
from ..graph import FunctionDef
from ..model_kinds import Form
from .asked import Asked, find_asked, require_asked
from .constants import read_defaults
from .entities import Entity, File, Mistaken, NamedFunction
from .model_parts import require_tensors
from .operands import Known
from .other_models import find_content
from .outside_names import refuse_called
from .problems import Problems
from .python_source import PythonFile, read_python, require_arguments
from .session import Session, blob
from .type_expressions import read_signature


def read_function(item: ast.Fn, external: ast.External, file: File, session: Session) -> Entity:
    """Return the function an item declares, `Mistaken` after a mistake in it."""
    problems, before = session.problems, session.problems.errors
    signature = read_signature(item.params, item.results, file, problems)
    refuse_called(item, problems)
    if not signature.results:
        problems.error("HR211", f"`{item.name.text}` gives nothing", item.name.span, "no results")
    defaults = read_defaults(item.params, signature.params, file, session)
    if external.kind == "native":
        return _native(item, external, signature, defaults, file, session)
    found = read_python(external.location, "function", file, problems)
    told = found is not None and _asked(found) is not None
    if found is None or not _fits(found, len(signature.params), external, problems):
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
        told=told,
    )
    return NamedFunction(definition, defaults)


def _native(
    item: ast.Fn,
    external: ast.External,
    signature: Signature,
    defaults: tuple[Known | None, ...],
    file: File,
    session: Session,
) -> Entity:
    problems = session.problems
    before = problems.errors
    require_tensors(item, signature, problems)
    name = file.prefix + item.name.text
    source, entry = find_content(
        external.location, Form.SYMBOL, file, problems, needed=session.needs(name)
    )
    if any(field.type == UNKNOWN for field in (*signature.params, *signature.results)):
        return Mistaken()
    if problems.errors > before or not signature.results:
        return Mistaken()
    definition = FunctionDef(
        name=name,
        signature=signature,
        kind="native",
        location=external.location.value,
        attribute=entry,
        source=source,
        span=item.name.span,
        batched=external.batched,
        pure=external.pure,
    )
    return NamedFunction(definition, defaults)


def _asked(found: PythonFile) -> Asked | None:
    definition = found.definition
    if not isinstance(definition, python.FunctionDef):
        return None
    return find_asked(definition.args, found.tree)


def _fits(found: PythonFile, arguments: int, external: ast.External, problems: Problems) -> bool:
    definition, location = found.definition, external.location
    if isinstance(definition, python.AsyncFunctionDef):
        problems.error(
            "HR309", f"`{found.attribute}` is `async`, which stages are not", location.span
        )
        return False
    if not isinstance(definition, python.FunctionDef):
        return True  # imported or computed: what it takes is seen when it runs
    asked, taken = _asked(found), definition.args
    return require_arguments(
        taken,
        0,
        arguments,
        found,
        definition.lineno,
        location,
        problems,
        told=asked is not None and asked.index is not None,
    ) and (
        asked is None
        or require_asked(
            asked,
            arguments,
            found,
            location,
            problems,
            batched=external.batched,
            pure=external.pure,
        )
    )
