"""Whether a value is worth computing for what it emits, although nothing takes it.

An arm that holds `next` or `return` counts too: what is wrong is that it stands there, which the
checker says.
"""

from types import UnionType

from . import ast


def sends(value: ast.Expr) -> bool:
    """Tell whether control flow has an `emit`, or what cannot stand there, in one of its blocks."""
    match value:
        case ast.If(then=then, orelse=orelse):
            return any(map(_arm_sends, (then, orelse)))
        case ast.Match(arms=arms):
            return any(_arm_sends(arm.body) for arm in arms)
        case ast.For(body=body) | ast.Loop(body=body):
            return _block_sends(body, ast.Emit | ast.Return)
        case ast.Try(body=body, orelse=orelse):
            return any(map(_arm_sends, (body, orelse)))
        case _:
            return False


def _arm_sends(arm: ast.Block | ast.Expr | None) -> bool:
    if isinstance(arm, ast.Block):
        return _block_sends(arm, ast.Emit | ast.Return | ast.Next | ast.StopWhen)
    return arm is not None and sends(arm)


def _block_sends(block: ast.Block, kinds: UnionType) -> bool:
    return any(
        isinstance(one, kinds) or (isinstance(one, ast.Assign | ast.Result) and sends(one.value))
        for one in block.statements
    )
