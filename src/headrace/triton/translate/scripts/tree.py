"""A script's text as a tree: what statements read, give values to, leave and tell."""

import ast
from collections.abc import Sequence
from typing import Final

from .calls import LOGGED
from .values import Kept, Part, Value

_ASKING: Final = ("exec", "async_exec")
_RESPONSE: Final = "InferenceResponse"


def imported(node: ast.Import | ast.ImportFrom) -> dict[str, Value]:
    """Return the names that an import gives."""
    found: dict[str, Value] = {}
    for one in node.names:
        if isinstance(node, ast.Import):
            name = one.name if one.asname else one.name.partition(".")[0]
            found[one.asname or name] = Part(name)
        else:
            found[one.asname or one.name] = Part(f"{node.module}.{one.name}")
    return found


def is_log(call: ast.Call) -> bool:
    """Whether a statement writes into a log and does nothing else."""
    match call.func:
        case ast.Name(name) | ast.Attribute(attr=name) if name in LOGGED:
            inner = [one for one in ast.walk(call) if isinstance(one, ast.Attribute)]
            return not any(one.attr in (*_ASKING, "append", "pop") for one in inner)
        case _:
            return False


def require_failing(node: ast.AST, body: Sequence[ast.stmt]) -> None:
    """Hold what is done of an error to that the request fails."""
    inner = [one for statement in body for one in ast.walk(statement)]
    asks = any(isinstance(one, ast.Attribute) and one.attr in _ASKING for one in inner)
    if body and isinstance(body[-1], ast.Raise) and not asks:
        return
    for one in inner:
        match one:
            case ast.Call(function, keywords=words) if written(function).endswith(_RESPONSE):
                if any(word.arg == "error" for word in words) and not asks:
                    return
            case _:
                pass
    raise Kept(node, "it goes on behind an error")


def written(node: ast.expr) -> str:
    """Return how a name is written."""
    return ast.unparse(node)


def read_in(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the names that statements read."""
    return frozenset(
        one.id
        for statement in body
        for one in ast.walk(statement)
        if isinstance(one, ast.Name)
        and (isinstance(one.ctx, ast.Load) or isinstance(statement, ast.AugAssign))
    ) | frozenset(
        one.target.id
        for statement in body
        for one in ast.walk(statement)
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name)
    )


def stored_in(node: ast.For) -> frozenset[str]:
    """Return the names that a loop gives values."""
    return frozenset(
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    )


def breaks(node: ast.stmt) -> bool:
    """Whether a statement leaves the loop that it is in."""
    match node:
        case ast.Break():
            return True
        case ast.For() | ast.While() | ast.FunctionDef():
            return False
        case _:
            inner = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)]
            return any(map(breaks, inner))


def target_of(node: ast.For) -> str:
    return node.target.id if isinstance(node.target, ast.Name) else ""
