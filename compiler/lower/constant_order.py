"""In which order constants are read: each after those that it mentions, wherever they stand."""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from ...dsl import ast
from .problems import Problems


def in_order(items: Sequence[ast.Const], problems: Problems) -> list[ast.Const]:
    """Return the constants in an order to read them; those made of themselves are mistakes, and
    left out."""
    by_name = {item.name.text: item for item in items}
    waiting = {
        name: [one for one in mentioned(item.value) if one in by_name]
        for name, item in by_name.items()
    }
    while True:
        try:
            return [by_name[name] for name in TopologicalSorter(waiting).static_order()]
        except CycleError as error:
            circle: list[str] = error.args[1]  # its first name is its last too
            for name in circle[1:]:
                waiting.pop(name, None)
            name = min(circle, key=lambda one: by_name[one].span.start)
            problems.error(
                "HR111", f"the constant `{name}` is made of itself", by_name[name].value.span
            )
            waiting = {
                name: [one for one in those if one in waiting] for name, those in waiting.items()
            }


def mentioned(expr: ast.Expr | ast.Slice | None) -> Iterator[str]:
    """Yield the names in an expression of a constant, also of what it calls."""
    match expr:
        case ast.Name(text=text):
            yield text
        case ast.Unary(operand=operand):
            yield from mentioned(operand)
        case ast.Binary(left=left, right=right):
            yield from mentioned(left)
            yield from mentioned(right)
        case ast.ListLiteral(items=items):
            for item in items:
                yield from mentioned(item)
        case ast.Call(callee=callee, arguments=arguments):
            yield from mentioned(callee)
            for argument in arguments:
                yield from mentioned(argument.value)
        case ast.Index(value=value, items=items):
            yield from mentioned(value)
            for item in items:
                yield from mentioned(item)
        case ast.Slice(start=start, stop=stop, step=step):
            for bound in (start, stop, step):
                yield from mentioned(bound)
        case _:
            return
