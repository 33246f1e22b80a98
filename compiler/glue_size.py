"""How much larger one type's values are than another's, as far as that can be known."""

from collections import Counter
from math import prod

from ..dsl.types import Dim, TensorType, Type
from ..stdlib.dtypes import to_numpy

MUCH = 4
"""How many times smaller counts as much."""


def shrinks(before: Type, after: Type, times: int = MUCH) -> bool:
    """Tell whether values of `after` surely have `times` fewer bytes than those of `before`.

    A dimension that only `before` has counts as large; types of unlike unknown dimensions, or
    that are no tensors, cannot be compared.
    """
    if not isinstance(before, TensorType) or not isinstance(after, TensorType):
        return False
    size, dims = _bytes(before)
    smaller, others = _bytes(after)
    if others - dims:
        return False
    if dims - others:
        return smaller <= size
    return smaller * times <= size


def _bytes(type: TensorType) -> tuple[int, Counter[Dim]]:
    """Return the known part of a size in bytes, and the unknown factors."""
    known = prod(dim for dim in type.dims if isinstance(dim, int))
    return known * to_numpy(type.dtype).itemsize, Counter(
        dim for dim in type.dims if not isinstance(dim, int)
    )
