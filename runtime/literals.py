"""Literals of a plan as items of their types, and values of no rows."""

from typing import cast

import numpy as np

from ..dsl.types import DType, ListType, OptionalType, TensorType, Type, UnknownType
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Item, Literal
from .shapes import Bindings, evaluate


def literal_item(literal: Literal, kind: Type) -> Item:
    """Return a literal as an item; one that only ops understand (a dtype) stays as it is."""
    match kind:
        case TensorType():
            return _tensor(literal, kind)
        case ListType() if isinstance(literal, tuple):
            return [literal_item(one, kind.item) for one in literal]
        case OptionalType() if literal is not None:
            return literal_item(literal, kind.item)
        case ListType() | OptionalType() | UnknownType():
            return cast("Item", literal)


def plain_literal(literal: Literal) -> Literal:
    """Return a literal in Python's own values, each number as short as it may be written for its
    dtype: 0.9, also where it is of f32."""
    if isinstance(literal, tuple):
        return tuple(map(plain_literal, literal))
    if not isinstance(literal, np.ndarray):
        return literal
    if literal.ndim:
        return tuple(plain_literal(np.asarray(one)) for one in literal)
    plain = literal.item()
    return float(str(literal)) if isinstance(plain, float) else cast("Literal", plain)


def show_literal(literal: Literal) -> str:
    """Return a literal as the language writes it."""
    match plain_literal(literal):
        case tuple() as items:
            return f"[{', '.join(map(show_literal, items))}]"
        case bool() as flag:
            return str(flag).lower()
        case str() as text:
            return f'"{text}"'
        case other:
            return str(other)


def _tensor(literal: Literal, kind: TensorType) -> Item:
    if literal is None or isinstance(literal, DType):
        return cast("Item", literal)
    if isinstance(literal, str | bytes) and not kind.dims:
        return literal
    array = np.array(literal, to_numpy(kind.dtype))
    array.flags.writeable = False  # shared by all requests; a caller may get it as a result
    return array


def empty_item(kind: Type, known: Bindings) -> Item:
    """Return a tensor of no rows with the declared dtype and rank, or an empty list.

    A size that nothing tells, as no item has been made, is 0.
    """
    if isinstance(kind, TensorType) and kind.dims:
        sizes = tuple(max(evaluate(dim, known) or 0, 0) for dim in kind.dims[1:])
        return np.empty((0, *sizes), to_numpy(kind.dtype))
    return []
