"""How the sizes of one value follow from those of another: how much larger, or told by them."""

from collections import Counter
from collections.abc import Iterable
from math import prod

from ..dsl.linear import linear, subtract
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


def is_told(dim: Dim, others: Iterable[Dim]) -> bool:
    """Tell whether rows that agree in `others` agree in `dim`: it is known, or one of them is the
    same but for what is added to it (`H` and `H + 2`)."""
    if isinstance(dim, int):
        return True
    form = linear(dim, lambda variable: variable)
    for other in others:
        if other == dim:
            return True
        found = linear(other, lambda variable: variable)
        if form is not None and found is not None and subtract(form, found).is_constant:
            return True
    return False
