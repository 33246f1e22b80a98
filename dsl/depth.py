"""How tall a tree is: whatever walks trees may recurse up to `MAX_HEIGHT` and no further."""

from dataclasses import fields
from functools import cache

from . import ast
from .recursion import allow_depth

MAX_HEIGHT = 1000
"""Nodes on the longest way from an item to a leaf: each of 200 blocks is up to five of them."""

_PLAIN_HEIGHT = 60
"""Up to here the default limit does, with room for whoever calls. Real programs stay under 40."""


def make_room_for(item: ast.Node) -> ast.Node | None:
    """Let an item be walked recursively from here on; return a node that lies too deep for that.

    Walks level by level: a tree too tall to recurse into is what this has to find.
    """
    level: list[ast.Node] = [item]
    for height in range(MAX_HEIGHT):
        level = [child for node in level for child in _children(node)]
        if not level:
            if height > _PLAIN_HEIGHT:
                allow_depth()
            return None
    return level[0]


def _children(node: ast.Node) -> list[ast.Node]:
    found: list[ast.Node] = []
    for name in _field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, ast.Node):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(part for part in value if isinstance(part, ast.Node))
    return found


@cache
def _field_names(kind: type[ast.Node]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name != "span")
