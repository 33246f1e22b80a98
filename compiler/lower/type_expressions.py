"""Types as written become types as meant; names of dimensions are those of their signature."""

from collections.abc import Iterable

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.dims import Dims
from ...dsl.nearest import nearest
from ...dsl.source import Span
from ...dsl.types import (
    ANY_DIM,
    UNKNOWN,
    Dim,
    DimArith,
    DimVar,
    DType,
    Field,
    ListType,
    OptionalType,
    Signature,
    TensorType,
    Type,
)
from .entities import Constraint, File, Mistaken, NamedType, UsedFile, describe
from .problems import Problems, did_mean, did_you_mean

SCALARS = {dtype.value: dtype for dtype in DType}
ELSEWHERE = {  # what other languages call them
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "int": "i64",
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    "str": "string",
    "boolean": "bool",
}


def read_type(expr: ast.TypeExpr, file: File, problems: Problems) -> Type:
    """Return the type an expression names; UNKNOWN after a mistake in it."""
    match expr:
        case ast.TensorTypeExpr(name=name) if name in SCALARS:
            return TensorType(
                SCALARS[name], tuple(read_dim(dim, problems) for dim in expr.dims or ())
            )
        case ast.TensorTypeExpr():
            return _named_type(expr, file, problems)
        case ast.ListTypeExpr():
            item = read_type(expr.item, file, problems)
            if expr.maximum is None:
                return UNKNOWN if item == UNKNOWN else ListType(item)
            if not isinstance(expr.maximum, ast.DimInt):
                problems.error(
                    "HR228",
                    f"the most items of a list are a number, not `{expr.maximum.span.text}`",
                    expr.maximum.span,
                    help=f"leave it out: `list<{expr.item.span.text}>`",
                )
                return UNKNOWN
            return UNKNOWN if item == UNKNOWN else ListType(item, expr.maximum.value)
        case ast.OptionalTypeExpr():
            item = read_type(expr.item, file, problems)
            return UNKNOWN if item == UNKNOWN else OptionalType(item)


def read_dim(expr: ast.DimExpr, problems: Problems) -> Dim:
    match expr:
        case ast.DimInt(value=value):
            return value
        case ast.DimName(name=name):
            return DimVar(name)
        case ast.DimUnknown():
            return ANY_DIM
        case ast.DimBinary(op=op, left=left, right=right):
            by = read_dim(right, problems)
            if op in ("/", "%") and Dims().resolve(by) == 0:
                problems.error("HR228", "a dimension is divided by zero", right.span)
            return DimArith(op, read_dim(left, problems), by)


def read_constraint(written: ast.Constraint, problems: Problems) -> Constraint:
    """Return what a `where` asks for."""
    left, right = read_dim(written.left, problems), read_dim(written.right, problems)
    return Constraint(left, written.op, right, written.span.text, written.span)


def read_fields(params: Iterable[ast.Param], file: File, problems: Problems) -> tuple[Field, ...]:
    """Return parameters or results; a name given twice keeps its first place."""
    fields: dict[str, Field] = {}
    places: dict[str, Span] = {}
    for param in params:
        name = param.name.text
        type = read_type(param.type, file, problems)
        if name in fields:
            given_twice(name, param.name.span, places[name], problems)
            continue
        fields[name], places[name] = Field(name, type), param.name.span
    return tuple(fields.values())


def read_signature(
    params: Iterable[ast.Param], results: Iterable[ast.Param], file: File, problems: Problems
) -> Signature:
    return Signature(read_fields(params, file, problems), read_fields(results, file, problems))


def given_twice(
    name: str, again: Span, first: Span, problems: Problems, help: str | None = None
) -> None:
    """Report a name that is given a second time; both places are shown."""
    problems.error(
        "HR105",
        f"`{name}` is given twice",
        again,
        "again here",
        secondary=(Label(first, f"`{name}` is first given here"),),
        help=help,
    )


def _meant(written: str, name: str, types: list[str]) -> str | None:
    """Return the help for a type that there is none of, in the file that `written` leads to."""
    if written != name:
        near = nearest(name, types)
        return did_mean(None if near is None else written.removesuffix(name) + near)
    return did_mean(ELSEWHERE.get(name)) or did_you_mean(name, (*types, *SCALARS))


def _named_type(expr: ast.TensorTypeExpr, file: File, problems: Problems) -> Type:
    first, *rest = expr.name.split(".")
    found = file.find(first)
    if rest and isinstance(found, UsedFile):
        file, first = found.file, ".".join(rest)
        found = file.find(first)
    match found:
        case NamedType(type=type) if expr.dims is None:
            return type
        case NamedType(type=type):
            problems.error(
                "HR228",
                f"`{expr.name}` stands for {type} and takes no dimensions",
                expr.span,
                help=f"write `{expr.name}`",
            )
        case Mistaken():
            pass
        case None:
            types = [name for name, one in file.entities.items() if isinstance(one, NamedType)]
            problems.error(
                "HR104",
                f"there is no type `{expr.name}`",
                Span(expr.span.source, expr.span.start, expr.span.start + len(expr.name)),
                help=_meant(expr.name, first, types),
            )
        case other:
            problems.error("HR104", f"`{expr.name}` is {describe(other)}, not a type", expr.span)
    return UNKNOWN
