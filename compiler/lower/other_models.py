"""Models of kinds that no file of which is read here: `torch "m.pt"`, `remote "grpc://host:8001/m"`,
`native "lib.so:symbol"`, and those of other packages.

What they take and give is declared; what runs them compares that with the file when it is loaded.
They batch unless `batch none` says that they take one item.
"""

from dataclasses import replace
from pathlib import Path

from ...dsl import ast
from ...dsl.types import UNKNOWN
from ..assets import Missing, locate
from ..graph import Blob, ModelDef
from ..model_kinds import (
    Form,
    Kind,
    is_address,
    packed,
    packed_version,
    split_symbol,
    split_version,
)
from .constants import read_defaults
from .entities import Entity, File, Mistaken, NamedModel
from .model_axes import choose_axes
from .model_pads import read_pads
from .model_parts import require_names, require_tensors
from .problems import Problems
from .session import Session, blob
from .type_expressions import read_constraint, read_signature


def read_other_model(item: ast.Model, kind: Kind, file: File, session: Session) -> Entity:
    """Return the model an item declares, `Mistaken` after a mistake in it."""
    problems, before = session.problems, session.problems.errors
    if item.params is None or item.results is None:
        problems.error(
            "HR324",
            f"nothing says what `{item.name.text}` takes and gives: only ONNX files are asked",
            item.location.span,
            help=f"declare that behind the {_place(kind)}, as in `(x: f32[N]) -> (y: f32)`",
        )
        return Mistaken()
    signature = read_signature(item.params, item.results, file, problems)
    require_tensors(item, signature, problems)
    needed = session.needs(file.prefix + item.name.text)
    content, entry = find_content(item.location, kind.form, file, problems, needed=needed)
    if any(field.type == UNKNOWN for field in (*signature.params, *signature.results)):
        return Mistaken()
    axes = choose_axes(item, signature, None, problems)
    if problems.errors > before or axes is None:
        return Mistaken()
    definition = ModelDef(
        name=file.prefix + item.name.text,
        backend=item.backend.text,
        location=item.location.value,
        signature=signature,
        input_names=tuple(one.outside for one in item.params),
        output_names=tuple(one.outside for one in item.results),
        input_axes=axes.inputs,
        output_axes=axes.outputs,
        content=content,
        span=item.name.span,
        told=kind.told,
        entry=entry,
    )
    require_names(item, signature, problems)
    definition = replace(definition, pads=read_pads(item, definition, problems))
    defaults = read_defaults(item.params, signature.params, file, session)
    where = tuple(read_constraint(one, problems) for one in item.where)
    definition = replace(definition, where=tuple(one.check for one in where))
    return NamedModel(definition, where, defaults)


def _place(kind: Kind) -> str:
    return "address" if kind.form is Form.ADDRESS else "file"


def find_content(
    location: ast.String, form: Form, file: File, problems: Problems, *, needed: bool
) -> tuple[Blob | None, str]:
    """Return what the plan carries of a model and what of it is called ("": all of it). Nothing is
    carried of a file that is not `needed`, or after a mistake."""
    text, entry = location.value, ""
    match form:
        case Form.ADDRESS if is_address(text):
            return blob(text.encode()), ""
        case Form.SYMBOL if (split := split_symbol(text)) is not None:
            text, entry = split
        case Form.VERSION if (split := split_version(text)) is not None:
            text, entry = split
        case Form.GATHERED if (split := split_version(text, ".onnx")) is not None:
            text, entry = split
        case Form.PATH:
            pass
        case _:
            problems.error(
                "HR349",
                f"`{text}` does not say where it is",
                location.span,
                help=f'it is written as "{form.value}"',
            )
            return None, ""
    path = _found(text, form, location, file, problems, needed=needed)
    if path is None or not needed:
        return None, entry
    try:
        pack = packed_version if form in (Form.VERSION, Form.GATHERED) else packed
        return blob(pack(path)), entry
    except OSError as error:
        message = f"`{text}` cannot be read: {error.strerror}"
        problems.error("HR301", message, location.span)
        return None, entry


def _found(
    text: str, form: Form, location: ast.String, file: File, problems: Problems, *, needed: bool
) -> Path | None:
    try:
        return locate(text, file.source.directory, folders=form is Form.PATH)
    except Missing as missing:
        if needed:
            code = "HR313" if missing.package else "HR301"
            what = missing.message if missing.package else f"no model file `{text}`"
            problems.error(code, what, location.span, help=missing.help)
        return None
