"""Named dimensions at run time: bound from real shapes, then evaluated and compared."""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, assert_never

from ..compiler.plan import Check
from ..dsl.types import Dim, DimAny, DimArith, DimVar, ListType, OptionalType, TensorType, Type

Bindings: TypeAlias = "dict[DimVar, int]"

_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(dim: Dim, bindings: Bindings) -> int | None:
    """Return the size of a dimension, None while a name in it has no value."""
    match dim:
        case int():
            return dim
        case DimVar():
            return bindings.get(dim)
        case DimAny():
            return None
        case DimArith():
            left, right = evaluate(dim.left, bindings), evaluate(dim.right, bindings)
            if left is None or right is None:
                return None
            match dim.op:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "/":
                    return left // right if right else None
                case "%":
                    return left % right if right else None
        case _:
            assert_never(dim)


def bind(dims: Sequence[Dim], shape: Sequence[int], bindings: Bindings) -> str | None:
    """Match a shape with dimensions, giving names their first value; return what is wrong."""
    if len(shape) != len(dims):
        return f"has {len(shape)} dimensions, not {len(dims)}"
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        if isinstance(dim, DimVar) and dim not in bindings:
            bindings[dim] = size
            continue
        expected = evaluate(dim, bindings)
        if expected is not None and expected != size:
            known = f"`{dim}` is {expected} here" if not isinstance(dim, int) else f"{dim} is fixed"
            return f"has {size} in dimension {axis}, but {known}"
    return None


def failed(check: Check, bindings: Bindings) -> str | None:
    """Return why a check does not hold; raises KeyError when a name in it has no value."""
    left, right = evaluate(check.left, bindings), evaluate(check.right, bindings)
    if left is None or right is None:
        raise KeyError(f"`{check.text}` compares a dimension that no shape of its stage gives")
    if _COMPARE[check.op](left, right):
        return None
    return f"`{check.text}` does not hold: {left} {check.op} {right}"


def names(kinds: Iterable[Type]) -> list[DimVar]:
    """Return the named dimensions in types, as often as they occur."""
    found: list[DimVar] = []
    for kind in kinds:
        match kind:
            case TensorType():
                for dim in kind.dims:
                    found += _names(dim)
            case ListType() | OptionalType():
                found += names([kind.item])
            case _:
                pass
    return found


def _names(dim: Dim) -> list[DimVar]:
    if isinstance(dim, DimVar):
        return [dim]
    return _names(dim.left) + _names(dim.right) if isinstance(dim, DimArith) else []
