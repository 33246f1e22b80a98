"""Expressions: names, literals and fields here, all else where its kind is."""

from typing import assert_never

from ...dsl import ast
from ...dsl.nearest import nearest
from ...dsl.types import UNKNOWN, DimVar, DType, TensorType
from ..dimensions import rename_dims
from ..graph import Constant
from .attempts import lower_try
from .body import Body
from .branches import lower_if, lower_match
from .calls import FAMILIAR, lower_call
from .carry import lower_loop
from .controls import SEQUENCE, lower_control
from .entities import (
    Mistaken,
    NamedConstant,
    UsedFamily,
    UsedFile,
    describe,
)
from .indexing import lower_index
from .lists import lower_list
from .loops import lower_for
from .operands import BROKEN, TEXT, Broken, Known, Made, Operand, Record, weak_number
from .operators import lower_binary, lower_unary
from .problems import did_mean, did_you_mean
from .scope import Local
from .type_expressions import SCALARS
from .zeros import ZEROS


def evaluate(body: Body, expr: ast.Expr, names: tuple[str, ...]) -> Operand:
    """Lower an expression; `names` are what the source calls its results."""
    match expr:
        case ast.Name():
            return _name(body, expr)
        case ast.Number(value=value):
            return weak_number(value)
        case ast.String(value=value):
            return Known(value, TEXT)
        case ast.Bool(value=value):
            return Known(value, TensorType(DType.BOOL))
        case ast.Duration() | ast.Size():
            what = "a duration" if isinstance(expr, ast.Duration) else "a size in bytes"
            body.problems.error(
                "HR229", f"{what} is not a value: schedules and deadlines have them", expr.span
            )
            return BROKEN
        case ast.ListLiteral():
            return lower_list(body, expr, names)
        case ast.Attribute():
            return _attribute(body, expr)
        case ast.Call():
            return lower_call(body, expr, names)
        case ast.Index():
            return lower_index(body, expr, names)
        case ast.Unary():
            return lower_unary(body, expr, names)
        case ast.Binary():
            return lower_binary(body, expr, names)
        case ast.If():
            return lower_if(body, expr, names)
        case ast.Match():
            return lower_match(body, expr, names)
        case ast.For():
            return lower_for(body, expr, names)
        case ast.Loop():
            return lower_loop(body, expr, names)
        case ast.Try():
            return lower_try(body, expr, names)
        case _:
            assert_never(expr)


def perform(body: Body, expr: ast.Expr) -> None:
    """Lower an expression for what it emits: the arms of a branch need no value then."""
    match expr:
        case ast.If():
            lower_if(body, expr, (), wanted=False)
        case ast.Match():
            lower_match(body, expr, (), wanted=False)
        case _:
            body.evaluate(expr)  # of a `try` too: its value must have come about


def _name(body: Body, expr: ast.Name) -> Operand:
    found = body.scope.find(expr.text)
    match found:
        case Local(operand=operand):
            return operand
        case NamedConstant():
            return _constant(body, found, expr)
        case Mistaken():
            return BROKEN
        case None:
            return _unknown(body, expr)
        case other:
            body.problems.error(
                "HR116",
                f"`{expr.text}` is {describe(other)}, not a value",
                expr.span,
                help=None
                if isinstance(other, UsedFamily | UsedFile)
                else f"call it: `{expr.text}(...)`",
            )
            return BROKEN


def _unknown(body: Body, expr: ast.Name) -> Operand:
    if expr.text in SCALARS:
        return Known(SCALARS[expr.text], TEXT)  # `cast(x, f16)`
    if body.catalog.find(None, expr.text) is not None:
        body.problems.error(
            "HR116",
            f"`{expr.text}` is an op, not a value",
            expr.span,
            help=f"call it: `{expr.text}(...)`"
            if expr.text != ZEROS
            else "say the sizes, as in `zeros([2, 3])`: it stands alone only behind a type, "
            "as in `state h: f32[2, 3] = zeros`",
        )
        return BROKEN
    values = [name for name, one in body.file.entities.items() if isinstance(one, NamedConstant)]
    meant = nearest(expr.text, (*body.scope.names, *values))
    if meant is not None:
        body.scope.find(meant)  # it is used, but for the mistake
    body.problems.error(
        "HR101",
        f"there is no value `{expr.text}`",
        expr.span,
        "not given a value here or above",
        help=_instead(body, expr.text) or did_mean(meant),
    )
    return BROKEN


def _instead(body: Body, name: str) -> str | None:
    """Say how something is written that is no value here."""
    if body.scope.size(name) is not None:
        return f"`{name}` is a size: take it from a value that has it, as in `len(x)`"
    return f"write `{FAMILIAR[name]}`" if name in FAMILIAR else None


def _constant(body: Body, constant: NamedConstant, expr: ast.Name | ast.Attribute) -> Operand:
    if constant.known is not None:
        return constant.known

    def fresh(variable: DimVar) -> DimVar:
        return body.dims.fresh(variable.name)

    type = body.settle(rename_dims(constant.type, fresh))
    name = expr.span.text
    return Made(body.add(Constant(None), (), (type,), expr.span, "constant", (name,))[0])


def _attribute(body: Body, expr: ast.Attribute) -> Operand:
    if isinstance(expr.value, ast.Name):
        match body.scope.find(expr.value.text):
            case UsedFamily(family=family):
                op = family.ops.get(expr.name.text)
                text = expr.span.text
                if op is None:
                    body.problems.error(
                        "HR103",
                        f"`{expr.value.text}` has no op `{expr.name.text}`",
                        expr.name.span,
                        help=did_you_mean(expr.name.text, family.ops),
                    )
                else:
                    body.problems.error(
                        "HR116",
                        f"`{text}` is an op, not a value",
                        expr.span,
                        help=f"call it: `{text}(...)`",
                    )
                return BROKEN
            case UsedFile(file=file):
                match file.find(expr.name.text):
                    case NamedConstant() as constant:
                        return _constant(body, constant, expr)
                    case Mistaken():
                        return BROKEN
                    case None:
                        body.problems.error(
                            "HR101",
                            f"`{expr.value.text}` has no `{expr.name.text}`",
                            expr.name.span,
                            help=did_you_mean(expr.name.text, file.entities),
                        )
                        return BROKEN
                    case other:
                        body.problems.error(
                            "HR116",
                            f"`{expr.span.text}` is {describe(other)}, not a value",
                            expr.span,
                        )
                        return BROKEN
            case None if expr.value.text == SEQUENCE:
                return lower_control(body, expr)
            case _:
                pass
    return _field(body, expr)


def _field(body: Body, expr: ast.Attribute) -> Operand:
    operand = body.evaluate(expr.value)
    if isinstance(operand, Broken):
        return BROKEN
    name = expr.name
    if isinstance(operand, Record):
        found = operand.find(name.text)
        if found is not None:
            return found
        listed = ", ".join(f"`{field}`" for field in operand.names)
        body.problems.error(
            "HR106",
            f"there is no field `{name.text}` here, only {listed}",
            name.span,
            help=did_you_mean(name.text, operand.names),
        )
    elif operand.type != UNKNOWN:
        body.problems.error(
            "HR106",
            f"`{expr.value.span.text}` is {body.resolve(operand.type)} and has no field "
            f"`{name.text}`",
            name.span,
            help=f"it is an op: `{name.text}({expr.value.span.text})`"
            if body.catalog.find(None, name.text) is not None
            else None,
        )
    return BROKEN
