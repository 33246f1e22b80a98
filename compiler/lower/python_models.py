"""`model m = python "file.py:Class"`: a class that is made once per instance and called per batch.

The file is read, not run. The constructor takes nothing, or the keyword `device`; `__call__` takes
what the signature declares. It batches unless `batch none` says that it takes one item.
"""

import ast as python
from dataclasses import replace

from ...dsl import ast
from ...dsl.types import UNKNOWN
from ..graph import ModelDef
from .asked import find_asked, require_asked
from .constants import read_defaults
from .entities import Entity, File, Mistaken, NamedModel
from .model_pads import read_pads
from .problems import Problems
from .python_source import PythonFile, read_python, require_arguments
from .session import Session, blob
from .type_expressions import read_constraint, read_signature


def read_python_model(item: ast.Model, file: File, session: Session) -> Entity:
    """Return the model an item declares, `Mistaken` after a mistake in it."""
    problems, before = session.problems, session.problems.errors
    if item.params is None or item.results is None:
        problems.error(
            "HR324",
            f"nothing says what `{item.name.text}` takes and gives: a class does not tell",
            item.location.span,
            help="declare that behind the class, as in `(x: f32[N]) -> (y: f32)`",
        )
        return Mistaken()
    if item.batch is not None and item.batch.axes is not None:
        problems.error(
            "HR324",
            "a class gets the items of a batch in front, so no axis is to be named",
            item.batch.span,
            help="leave it out; or write `batch none` for a class that takes one item",
        )
    signature = read_signature(item.params, item.results, file, problems)
    name = file.prefix + item.name.text
    needed = session.needs(name)
    found = read_python(item.location, "class", file, problems, needed=needed)
    told = False
    if found is not None:
        told = _require_model(found, len(signature.params), item, problems)
    if any(field.type == UNKNOWN for field in (*signature.params, *signature.results)):
        return Mistaken()
    if problems.errors > before:
        return Mistaken()
    axis = None if item.batch is not None else 0
    definition = ModelDef(
        name=name,
        backend="python",
        location=item.location.value,
        signature=signature,
        input_names=tuple(one.outside for one in item.params),
        output_names=tuple(one.outside for one in item.results),
        input_axes=(axis,) * len(signature.params),
        output_axes=(axis,) * len(signature.results),
        content=blob(found.content) if found is not None else None,
        span=item.name.span,
        told=told,
    )
    definition = replace(definition, pads=read_pads(item, definition, problems))
    defaults = read_defaults(item.params, signature.params, file, session)
    where = tuple(read_constraint(one, problems) for one in item.where)
    definition = replace(definition, where=tuple(one.check for one in where))
    return NamedModel(definition, where, defaults)


def _require_model(found: PythonFile, arguments: int, item: ast.Model, problems: Problems) -> bool:
    """Report what cannot be made without arguments, or cannot be called with those declared; tell
    whether it asks for the request that it serves."""
    definition, location = found.definition, item.location
    if isinstance(definition, python.FunctionDef | python.AsyncFunctionDef):
        problems.error(
            "HR325",
            f"`{found.attribute}` is a function, and a model is a class",
            location.span,
            help="declare it as `fn`; or make it a class with `__call__`",
        )
        return False
    if not isinstance(definition, python.ClassDef):
        return False  # imported or computed: what it takes is seen when it runs
    methods = {one.name: one for one in definition.body if isinstance(one, python.FunctionDef)}
    made = methods.get("__init__")
    if made is not None and (wanted := _wanted(made.args)):
        listed = ", ".join(f"`{name}`" for name in wanted)
        problems.error(
            "HR325",
            f"`{found.attribute}` cannot be made: its constructor wants {listed}",
            location.span,
            notes=(f"see line {made.lineno} of `{found.path.name}`",),
            help="give them defaults; only `device` is given, to a constructor that takes it",
        )
    called = methods.get("__call__")
    if called is not None:
        asked, line = find_asked(called.args, found.tree), called.lineno
        told = asked is not None and asked.index is not None
        if (
            require_arguments(called.args, 1, arguments, found, line, location, problems, told=told)
            and asked is not None
        ):
            batched = item.batch is None
            require_asked(asked, arguments + 1, found, location, problems, batched=batched)
        return told
    if not definition.bases:
        problems.error(
            "HR325",
            f"`{found.attribute}` has no `__call__`, which is given each batch",
            location.span,
            notes=(f"see line {definition.lineno} of `{found.path.name}`",),
        )
    return False


def _wanted(arguments: python.arguments) -> list[str]:
    """Return the parameters behind `self` that have no default, but for `device`."""
    positional = [*arguments.posonlyargs, *arguments.args]
    without = positional[: len(positional) - len(arguments.defaults)][1:]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    without += [one for one, default in keywords if default is None]
    return [one.arg for one in without if one.arg != "device"]
