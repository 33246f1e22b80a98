"""`model` items: what is declared, compared with what the file says, and which axis is the batch.

* Without `batch`, axis 0 is the batch axis when the file leaves it open in every input and output.
  Where a signature is declared and there is no file to ask, the model is taken to batch.
* `batch axis { h = 1 }`: inputs that it does not name have no batch axis (a sample rate that all
  rows share); outputs that it does not name have it in front. An axis that the file fixes at 1
  is then taken to be free and made so in the packed model.
* `batch none`: the signature is the file's whole one.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from ...dsl import ast
from ...dsl.types import Signature
from ..assets import Missing, locate
from ..graph import Blob, ModelDef
from ..model_kinds import ONNX, UNSERVED, kind_names, kind_of
from ..signatures import FileSignature, NotOnnx
from .constants import read_defaults
from .entities import Entity, File, Mistaken, NamedModel
from .model_axes import Axes, choose_axes
from .model_files import item_signature, match_file
from .model_pads import read_pads
from .model_parts import require_names, require_tensors
from .other_models import read_other_model
from .problems import Problems, did_you_mean
from .python_models import read_python_model
from .session import Session
from .type_expressions import read_constraint, read_signature


@dataclass(frozen=True, slots=True)
class Found:
    """The file of a model."""

    path: Path
    signature: FileSignature


def read_model(item: ast.Model, file: File, session: Session) -> Entity:
    """Return the model an item declares, `Mistaken` after a mistake in it."""
    if item.backend.text == ONNX:
        return _read(item, file, session) or Mistaken()  # one whose file is missing is none yet
    before = session.problems.errors
    entity = _of_other_kind(item, file, session)
    return entity if session.problems.errors == before else Mistaken()


def _of_other_kind(item: ast.Model, file: File, session: Session) -> Entity:
    name = item.backend.text
    if name == "python":
        return read_python_model(item, file, session)
    kind = kind_of(name)
    if kind is not None:
        return read_other_model(item, kind, file, session)
    _require_kind(item, session.problems)
    return Mistaken()


def _read(item: ast.Model, file: File, session: Session) -> Entity | None:
    problems = session.problems
    before = problems.errors
    declared = None
    if item.params is not None and item.results is not None:
        declared = read_signature(item.params, item.results, file, problems)
        require_tensors(item, declared, problems)
    if problems.errors > before:
        return None
    found = _find(item, declared is not None, file, session)
    if problems.errors > before and declared is None:
        return None
    before = problems.errors  # what is declared holds without the file: calls are looked at too
    axes = choose_axes(item, declared, found.signature if found else None, problems)
    if axes is None:
        return None
    definition = _define(item, declared, found, axes, file, problems)
    if definition is None or problems.errors > before:
        return None
    require_names(item, definition.signature, problems)
    definition = replace(definition, pads=read_pads(item, definition, problems))
    if session.needs(definition.name) and found is not None:
        definition = replace(definition, content=_pack(item, found, axes, session))
    defaults = read_defaults(item.params or (), definition.signature.params, file, session)
    where = tuple(read_constraint(one, problems) for one in item.where)
    definition = replace(definition, where=tuple(one.check for one in where))
    return NamedModel(definition, where, defaults) if problems.errors == before else None


def _require_kind(item: ast.Model, problems: Problems) -> None:
    """Report a kind of model that nothing here knows."""
    name = item.backend.text
    if name in UNSERVED:
        problems.error(
            "HR318",
            f"the backend `{name}` is not available in this version",
            item.backend.span,
            help='export the model to ONNX and write `onnx "..."`',
        )
        return
    problems.error(
        "HR318",
        f"there is no backend `{name}`",
        item.backend.span,
        help=did_you_mean(name, kind_names()),
    )


def _find(item: ast.Model, declared: bool, file: File, session: Session) -> Found | None:
    """Find and read the file; None when a check does without it, or after a mistake."""
    location, problems = item.location, session.problems
    try:
        path = locate(location.value, file.source.directory)
    except Missing as missing:
        if declared and not session.needs(file.prefix + item.name.text):
            return None
        code = "HR313" if missing.package else "HR301"
        what = missing.message if missing.package else f"no model file `{location.value}`"
        problems.error(code, what, location.span, help=missing.help)
        return None
    try:
        return Found(path, session.onnx_signature(path))
    except NotOnnx as error:
        problems.error("HR302", f"`{location.value}` is not an ONNX model: {error}", location.span)
    except OSError as error:
        message = f"`{location.value}` cannot be read: {error.strerror}"
        problems.error("HR301", message, location.span)
    return None


def _define(
    item: ast.Model,
    declared: Signature | None,
    found: Found | None,
    axes: Axes,
    file: File,
    problems: Problems,
) -> ModelDef | None:
    if found is None:
        assert declared is not None
        signature = declared
        inputs = tuple(field.name for field in declared.params)
        outputs = tuple(field.name for field in declared.results)
    elif declared is None:
        read = item_signature(item, found.signature, axes, problems)
        if read is None:
            return None
        signature = read
        inputs = tuple(one.name for one in found.signature.required_inputs)
        outputs = tuple(one.name for one in found.signature.outputs)
    else:
        matched = match_file(item, declared, found.signature, axes, problems)
        if matched is None:
            return None
        signature, inputs, outputs = matched
    return ModelDef(
        name=file.prefix + item.name.text,
        backend=item.backend.text,
        location=item.location.value,
        signature=signature,
        input_names=inputs,
        output_names=outputs,
        input_axes=axes.inputs,
        output_axes=axes.outputs,
        content=None,
        span=item.name.span,
    )


def _pack(item: ast.Model, found: Found, axes: Axes, session: Session) -> Blob | None:
    location = item.location
    try:
        return session.onnx_blob(found.path, axes.freed)
    except NotOnnx as error:
        session.problems.error(
            "HR302", f"`{location.value}` cannot be packed: {error}", location.span
        )
    except OSError as error:
        message = f"weights of `{location.value}` cannot be read: {error}"
        session.problems.error("HR301", message, location.span)
    return None
