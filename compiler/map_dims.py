"""Types with their dimensions replaced."""

from collections.abc import Callable

from ..dsl.types import Dim, DimArith, DimVar, ListType, OptionalType, TensorType, Type


def map_dims(type: Type, change: Callable[[DimVar], Dim]) -> Type:
    """Return the type with every named dimension, also within arithmetic, replaced."""
    match type:
        case TensorType(dtype=dtype, dims=dims):
            return TensorType(dtype, tuple(map_dim(dim, change) for dim in dims))
        case ListType(item=item, maximum=maximum):
            return ListType(map_dims(item, change), maximum)
        case OptionalType(item=item):
            return OptionalType(map_dims(item, change))
        case _:
            return type


def map_dim(dim: Dim, change: Callable[[DimVar], Dim]) -> Dim:
    match dim:
        case DimVar():
            return change(dim)
        case DimArith(op=op, left=left, right=right):
            return DimArith(op, map_dim(left, change), map_dim(right, change))
        case _:
            return dim
