"""`if` and `match`: their arms become regions of one node."""

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.source import Span
from ...dsl.types import (
    UNKNOWN,
    DType,
    TensorType,
)
from ...stdlib.op import Literal
from ..graph import If, Match
from .body import Body
from .literals import LiteralError, typed
from .merge import ArmResult, merge
from .mismatch import made_here, named
from .operands import BROKEN, Broken, Operand, Record, Single, weak_number
from .statements import condition, lower_block


def lower_if(body: Body, expr: ast.If, names: tuple[str, ...], *, wanted: bool = True) -> Operand:
    """Lower an `if`. Without `wanted` nothing takes its value, and it may have no `else`."""
    test = condition(body, expr.condition, "if")
    then = _arm(body, expr.then, names, wanted)
    if expr.orelse is None and not wanted:
        other = ArmResult(body.inside(), Record(()), expr.span)
    elif expr.orelse is None:
        body.problems.error(
            "HR225",
            "an `if` is a value and needs an `else`",
            expr.span,
            "no `else`",
            help="add `else { ... }` with the value for when the condition does not hold",
        )
        return BROKEN
    else:
        other = _arm(body, expr.orelse, names, wanted)
    arms = (then, other)
    if isinstance(test, Broken):
        return BROKEN
    inputs = (body.value(test, expr.condition.span, "condition"),)
    return merge(body, If(), inputs, arms, expr.span, "if", names)


def lower_match(
    body: Body, expr: ast.Match, names: tuple[str, ...], *, wanted: bool = True
) -> Operand:
    """Lower a `match`. Without `wanted` nothing takes its value."""
    subject = body.single(expr.subject)
    type = _subject_type(body, expr.subject, subject)
    cases, arms, sound = _cases(body, expr, type, names, wanted)
    if not sound or isinstance(subject, Broken) or type is None or not arms:
        return BROKEN
    inputs = (body.value(subject, expr.subject.span, "subject"),)
    return merge(body, Match(cases), inputs, arms, expr.span, "match", names)


def _arm(
    body: Body, block: ast.Block | ast.If | ast.Expr, names: tuple[str, ...], wanted: bool
) -> ArmResult:
    inner = body.inside()
    operand = lower_block(inner, block, names, wanted=wanted)
    span = block.span
    if isinstance(block, ast.Block) and block.statements:
        span = block.statements[-1].span
    return ArmResult(inner, operand, span)


def _subject_type(body: Body, expr: ast.Expr, subject: Single) -> TensorType | None:
    type = body.resolve(subject.type)
    if type == UNKNOWN:
        return None
    if isinstance(type, TensorType) and not type.dims and _is_matchable(type.dtype):
        return type
    body.problems.error(
        "HR221",
        f"`match` takes one integer, string or bool, but {named(expr)} is {type}",
        expr.span,
        secondary=made_here(body, expr),
    )
    return None


def _is_matchable(dtype: DType) -> bool:
    return dtype.is_integer or dtype in (DType.BOOL, DType.STRING)


def _cases(
    body: Body, expr: ast.Match, type: TensorType | None, names: tuple[str, ...], wanted: bool
) -> tuple[tuple[tuple[Literal, ...], ...], list[ArmResult], bool]:
    """Return the literals of all arms but the last, which takes what is left, and the arms."""
    seen: dict[Literal, Span] = {}
    cases: list[tuple[Literal, ...]] = []
    arms: list[ArmResult] = []
    wildcard: Span | None = None
    sound = True
    for arm in expr.arms:
        literals: list[Literal] = []
        for pattern in arm.patterns:
            if wildcard is not None:
                body.problems.error(
                    "HR222",
                    "nothing reaches this arm",
                    pattern.span,
                    secondary=(Label(wildcard, "`_` takes everything"),),
                )
                sound = False
            elif isinstance(pattern, ast.Wildcard):
                wildcard = pattern.span
            else:
                sound &= _pattern(body, pattern, type, seen, literals)
        cases.append(tuple(literals))
        arms.append(_arm(body, arm.body, names, wanted))
    complete = type is not None and type.dtype is DType.BOOL and set(seen) == {True, False}
    if wildcard is None and not complete and type is not None:
        body.problems.error(
            "HR220",
            "not every value has an arm",
            expr.span,
            "no `_` arm",
            help="add `_ => ...` for all other values",
        )
        sound = False
    return tuple(cases[:-1]), arms, sound


def _pattern(
    body: Body,
    pattern: ast.Number | ast.String | ast.Bool,
    type: TensorType | None,
    seen: dict[Literal, Span],
    literals: list[Literal],
) -> bool:
    value = pattern.value
    if value in seen:
        body.problems.error(
            "HR222",
            f"`{pattern.span.text}` has an arm already",
            pattern.span,
            secondary=(Label(seen[value], "this one"),),
        )
        return False
    seen[value] = pattern.span
    literals.append(value)
    if type is None:
        return True
    fits = _fits(value, type)
    if not fits:
        body.problems.error("HR221", f"`{pattern.span.text}` is no value of {type}", pattern.span)
    return fits


def _fits(value: int | float | str | bool, type: TensorType) -> bool:
    if isinstance(value, bool):
        return type.dtype is DType.BOOL
    if isinstance(value, str):
        return type.dtype is DType.STRING
    if not type.dtype.is_integer:
        return False
    try:
        typed(weak_number(value), type)
    except LiteralError:
        return False
    return True
