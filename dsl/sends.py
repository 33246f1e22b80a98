"""Whether a value is worth computing for what it emits, although nothing takes it."""

from . import ast


def sends(value: ast.Expr) -> bool:
    """Tell whether control flow has an `emit` in one of its blocks."""
    match value:
        case ast.If(then=then, orelse=orelse):
            return any(map(_block_sends, (then, orelse)))
        case ast.Match(arms=arms):
            return any(_block_sends(arm.body) for arm in arms)
        case ast.For(body=body) | ast.Loop(body=body):
            return _block_sends(body)
        case ast.Try(body=body, orelse=orelse):
            return any(map(_block_sends, (body, orelse)))
        case _:
            return False


def _block_sends(block: ast.Block | ast.Expr | None) -> bool:
    if not isinstance(block, ast.Block):
        return block is not None and sends(block)
    return any(
        isinstance(one, ast.Emit) or (isinstance(one, ast.Assign | ast.Result) and sends(one.value))
        for one in block.statements
    )
