"""`const` items, defaults of parameters, and all else that must be known when compiling."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...dsl import ast
from ...dsl.source import Span
from ...dsl.types import UNKNOWN, Dim, DimVar, Field, Type
from ...stdlib.op import Literal
from ..assets import LOADERS, Asset, Missing, Unreadable, locate, metadata_lines
from ..dimensions import rename_dims
from ..graph import Constant, Node, OpCall, Value
from ..signatures import NotOnnx
from .agree import compare
from .body import Body, Whole
from .emits import not_a_stream
from .entities import Entity, File, Mistaken, NamedConstant, Routine
from .expressions import evaluate, perform
from .literals import LiteralError, typed
from .mismatch import report_mismatch
from .operands import BROKEN, Broken, Known, Made, Operand, Record, Single
from .problems import did_you_mean
from .scope import Scope
from .session import Session
from .type_expressions import read_type
from .zeros import is_zeros, zeros_of

METADATA = "metadata"


class _Absent(Exception):
    """A check does without the file that holds a constant."""


def read_constant(item: ast.Const, file: File, session: Session) -> Entity:
    """Return the constant of an item, `Mistaken` after a mistake in it."""
    problems = session.problems
    declared = read_type(item.type, file, problems)
    if is_zeros(item.value):
        known = zeros_of(item.value, declared, item.name.text, "HR227", problems)
        return Mistaken() if known is None else NamedConstant(known.type, known)
    try:
        known = _load(item.value, file, session)
    except _Absent:
        return NamedConstant(declared, None) if declared != UNKNOWN else Mistaken()
    if known is None or declared == UNKNOWN:
        return Mistaken()
    fitted = fit(item.value, known, declared, "HR227", f"`{item.name.text}`", file, session)
    return Mistaken() if fitted is None else NamedConstant(fitted.type, fitted)


def read_defaults(
    params: Sequence[ast.Param], fields: Sequence[Field], file: File, session: Session
) -> tuple[Known | None, ...]:
    """Return the default of each field, None for those that have none or a wrong one."""
    by_name = {param.name.text: param for param in params}
    found: list[Known | None] = []
    for field in fields:
        param = by_name.get(field.name)
        if param is None or param.default is None:
            found.append(None)
        else:
            found.append(initial(param.default, field.type, field.name, "HR214", file, session))
    return tuple(found)


def initial(
    expr: ast.Expr, type: Type, name: str, code: str, file: File, session: Session
) -> Known | None:
    """Return what stands after `name: type =`; None after a mistake, which has `code` if it is
    that the value is not of the type."""
    if is_zeros(expr):
        return zeros_of(expr, type, name, code, session.problems)
    known = evaluate_constant(expr, file, session)
    return None if known is None else fit(expr, known, type, code, f"`{name}`", file, session)


def evaluate_constant(expr: ast.Expr, file: File, session: Session) -> Known | None:
    """Return the value of an expression of literals; None after a mistake."""
    body = constant_body(file, session)
    single = body.single(expr)
    if isinstance(single, Known):
        return single
    computed = _computed(body.nodes, single.value) if isinstance(single, Made) else None
    if computed is not None:
        return computed
    if not isinstance(single, Broken):
        session.problems.error(
            "HR219",
            "this must be known when compiling",
            expr.span,
            notes=("literals, constants, and operators and ops on them are",),
        )
    return None


def constant_body(file: File, session: Session) -> Body:
    """Return a body without names of its own."""
    problems, scope = session.problems, Scope(file)
    return Body(
        problems,
        session.catalog,
        Whole(),
        scope,
        [],
        evaluate,
        perform,
        _refuse_routine,
        not_a_stream,
    )


def _computed(nodes: Sequence[Node], wanted: Value) -> Known | None:
    """Run ops on literals; None when something else is among the nodes, or an op fails."""
    known: dict[Value, Literal] = {}
    for node in nodes:
        match node.kind:
            case Constant(literal=literal):
                known[node.outputs[0]] = literal
            case OpCall(op=op):
                try:
                    results = op.reference(*(known[value] for value in node.inputs))
                except (ArithmeticError, ValueError, TypeError, KeyError):
                    return None
                rows = results if isinstance(results, tuple) else (results,)
                for output, result in zip(node.outputs, rows, strict=True):
                    if not isinstance(result, str | bytes | np.ndarray | np.generic):
                        return None
                    scalar = isinstance(result, str | bytes)
                    known[output] = result if scalar else np.asarray(result)
            case _:
                return None
    return Known(known[wanted], wanted.type)


def _refuse_routine(body: Body, routine: Routine, _: tuple[Single, ...], span: Span) -> Operand:
    body.problems.error("HR219", f"`{routine.name}` runs when the pipeline does", span)
    return Record(tuple((field.name, BROKEN) for field in routine.signature.results))


def fit(
    expr: ast.Expr,
    known: Known,
    wanted: Type,
    code: str,
    subject: str,
    file: File,
    session: Session,
) -> Known | None:
    """Bring a literal to the declared type, whose names take the literal's sizes."""
    body = constant_body(file, session)
    try:
        fitted = typed(known, wanted)
    except LiteralError as error:
        session.problems.error("HR216", f"{subject} is {wanted}, but {error}", expr.span)
        return None
    names: dict[DimVar, Dim] = {}

    def flexible(variable: DimVar) -> Dim:
        if variable not in names:
            names[variable] = body.dims.flexible(variable.name)
        return names[variable]

    if compare(fitted.type, rename_dims(wanted, flexible), body.dims) is None:
        return fitted
    report_mismatch(body, expr, fitted.type, wanted, f"{subject} is {wanted}", code=code)
    return None


def _load(expr: ast.Expr, file: File, session: Session) -> Known | None:
    """Run a loader, or evaluate the expression; None after a mistake."""
    if not isinstance(expr, ast.Call) or not isinstance(expr.callee, ast.Name):
        return evaluate_constant(expr, file, session)
    loader = expr.callee.text
    if loader not in LOADERS and loader != METADATA:
        meant = did_you_mean(loader, (*LOADERS, METADATA))
        if meant is None or session.catalog.find(None, loader) is not None:
            return evaluate_constant(expr, file, session)
        session.problems.error(
            "HR101", f"there is no loader `{loader}`", expr.callee.span, help=meant
        )
        return None
    texts = [
        a.value.value for a in expr.arguments if isinstance(a.value, ast.String) and not a.name
    ]
    wanted = 2 if loader == METADATA else 1
    if len(texts) != len(expr.arguments) or len(texts) != wanted:
        usage = 'metadata("model.onnx", "key")' if wanted == 2 else f'{loader}("file")'
        session.problems.error(
            "HR312", f"`{loader}` takes {wanted} string{'s' * (wanted > 1)}: `{usage}`", expr.span
        )
        return None
    asset = _read(loader, texts, expr, file, session)
    return None if asset is None else Known(asset.literal, asset.type, asset.weak)


def _read(
    loader: str, texts: list[str], expr: ast.Call, file: File, session: Session
) -> Asset | None:
    span = expr.arguments[0].span
    problems = session.problems
    try:
        path = locate(texts[0], file.source.directory)
        if loader == METADATA:
            return _metadata(path, texts, expr, session)
        return LOADERS[loader](path.read_bytes())
    except Missing as missing:
        if loader == METADATA and not session.need_models:
            raise _Absent from missing
        problems.error(
            "HR313" if missing.package else "HR311", missing.message, span, help=missing.help
        )
    except Unreadable as error:
        problems.error("HR312", f"`{texts[0]}` cannot be read by `{loader}`: {error}", span)
    except NotOnnx as error:
        problems.error("HR302", f"`{texts[0]}` is not an ONNX model: {error}", span)
    except OSError as error:
        problems.error("HR311", f"`{texts[0]}` cannot be read: {error.strerror}", span)
    return None


def _metadata(path: Path, texts: list[str], expr: ast.Call, session: Session) -> Asset | None:
    metadata = dict(session.onnx_signature(path).metadata)
    if texts[1] in metadata:
        return metadata_lines(metadata[texts[1]])
    listed = ", ".join(f"`{key}`" for key in metadata) or "none"
    session.problems.error(
        "HR312",
        f"the metadata of `{texts[0]}` has no key `{texts[1]}`; it has {listed}",
        expr.arguments[1].span,
        help=did_you_mean(texts[1], metadata),
    )
    return None
