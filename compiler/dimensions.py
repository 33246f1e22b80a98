"""The dimensions of types: listed, changed one by one, or renamed."""

from collections.abc import Callable, Iterator

from ..dsl.types import Dim, DimArith, DimVar, ListType, OptionalType, TensorType, Type


def type_dims(type: Type) -> Iterator[Dim]:
    """Yield the dimensions of a type, from the outside in."""
    match type:
        case TensorType(dims=dims):
            yield from dims
        case ListType(item=item) | OptionalType(item=item):
            yield from type_dims(item)
        case _:
            return


def map_dims(type: Type, change: Callable[[Dim], Dim]) -> Type:
    """Return the type with every dimension changed."""
    match type:
        case TensorType(dtype=dtype, dims=dims):
            return TensorType(dtype, tuple(map(change, dims))) if dims else type
        case ListType(item=item, maximum=maximum):
            return ListType(map_dims(item, change), maximum)
        case OptionalType(item=item):
            return OptionalType(map_dims(item, change))
        case _:
            return type


def rename_dims(type: Type, change: Callable[[DimVar], Dim]) -> Type:
    """Return the type with every named dimension, also within arithmetic, replaced."""
    return map_dims(type, lambda dim: rename_dim(dim, change))


def rename_dim(dim: Dim, change: Callable[[DimVar], Dim]) -> Dim:
    """Return the dimension with its names replaced."""
    match dim:
        case DimVar():
            return change(dim)
        case DimArith(op=op, left=left, right=right):
            return DimArith(op, rename_dim(left, change), rename_dim(right, change))
        case _:
            return dim
