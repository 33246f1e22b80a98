"""Named dimensions at run time: bound from real shapes, then evaluated and compared."""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, assert_never

from ..compiler.plan import Check
from ..dsl.types import Dim, DimAny, DimArith, DimVar, ListType, OptionalType, TensorType, Type
from ..stdlib.dtypes import to_numpy

Bindings: TypeAlias = "dict[DimVar, int]"

_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_fixed(kind: Type) -> bool:
    """Whether all values of a type are tensors of one shape."""
    return isinstance(kind, TensorType) and all(isinstance(dim, int) for dim in kind.dims)


def fixed_size(kinds: Iterable[Type]) -> int | None:
    """Return the bytes of values of these types together, None where they differ."""
    size = 0
    for kind in kinds:
        if not isinstance(kind, TensorType) or to_numpy(kind.dtype).hasobject:
            return None
        item = to_numpy(kind.dtype).itemsize
        for dim in kind.dims:
            if not isinstance(dim, int):
                return None
            item *= dim
        size += item
    return size


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


def solve(dim: Dim, size: int, bindings: Bindings) -> bool:
    """Give the one name in a dimension that has no value yet the value that makes it `size`.

    Returns False when none does. What rounds, or has two such names, is left as it is.
    """
    if isinstance(dim, DimVar):
        return size >= 0 and bindings.setdefault(dim, size) == size
    if not isinstance(dim, DimArith):
        return True
    left, right = evaluate(dim.left, bindings), evaluate(dim.right, bindings)
    match dim.op, left, right:
        case "+", int(known), None:
            return solve(dim.right, size - known, bindings)
        case "+", None, int(known):
            return solve(dim.left, size - known, bindings)
        case "-", int(known), None:
            return solve(dim.right, known - size, bindings)
        case "-", None, int(known):
            return solve(dim.left, size + known, bindings)
        case "*", int(known), None if known:
            return size % known == 0 and solve(dim.right, size // known, bindings)
        case "*", None, int(known) if known:
            return size % known == 0 and solve(dim.left, size // known, bindings)
        case _:
            return True


def bind(dims: Sequence[Dim], shape: Sequence[int], bindings: Bindings) -> str | None:
    """Match a shape with dimensions, giving names their first value; return what is wrong."""
    if len(shape) != len(dims):
        return f"has {len(shape)} dimensions, not {len(dims)}"
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        if isinstance(dim, DimVar) and dim not in bindings:
            bindings[dim] = size
            continue
        expected = evaluate(dim, bindings)
        if expected is None and not solve(dim, size, bindings):
            return f"has {size} in dimension {axis}, which `{dim}` cannot be"
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


def is_derived(kind: Type) -> bool:
    """Whether a type has a dimension that is computed from names."""
    match kind:
        case TensorType():
            return any(isinstance(dim, DimArith) for dim in kind.dims)
        case ListType() | OptionalType():
            return is_derived(kind.item)
        case _:
            return False


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
