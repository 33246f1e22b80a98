"""`try`: what may fail or take too long, and what runs in its place."""

from ...dsl import ast
from ...dsl.source import Span
from ..graph import Try
from .body import Body
from .emits import no_emit_under_try
from .merge import ArmResult, merge
from .operands import BROKEN, Broken, Operand
from .statements import lower_block


def lower_try(body: Body, expr: ast.Try, names: tuple[str, ...]) -> Operand:
    """Lower both arms; they give the same type, as those of an `if` do."""
    tried = _arm(no_emit_under_try(body.inside()), expr.body, names)
    other = _arm(body.inside(), expr.orelse, names)
    within = _within(body, expr.within)
    if isinstance(within, Broken):
        return BROKEN
    return merge(body, Try(within), (), (tried, other), expr.span, "try", names)


def _arm(inner: Body, block: ast.Block | ast.Expr, names: tuple[str, ...]) -> ArmResult:
    operand = lower_block(inner, block, names)
    span: Span = block.span
    if isinstance(block, ast.Block) and block.statements:
        span = block.statements[-1].span
    return ArmResult(inner, operand, span)


def _within(body: Body, expr: ast.Expr | None) -> float | Broken | None:
    """Return the time limit in seconds, None without one."""
    if expr is None:
        return None
    if not isinstance(expr, ast.Duration):
        body.problems.error(
            "HR335",
            "`within` takes a time that is written down",
            expr.span,
            help="write a duration such as `20ms`",
        )
        return BROKEN
    if expr.seconds <= 0:
        body.problems.error("HR335", "nothing can be done within no time", expr.span)
        return BROKEN
    return expr.seconds
