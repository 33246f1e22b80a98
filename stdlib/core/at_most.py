"""Holding a list to a length: what a list of unknown length passes where a bound is declared."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import ListType, Type
from ..constants import constant_integer
from ..op import Argument, Item, Op, OpTypeError, Param, Sample
from ..values import integer


def types(arguments: Sequence[Argument], _: Dims) -> tuple[Type, ...]:
    found, most = arguments[0].type, constant_integer(arguments[1], "most")
    if not isinstance(found, ListType):
        raise OpTypeError("items", f"a list, not {found}")
    if most < 0:
        raise OpTypeError("most", f"0 or more, not {most}")
    bounds = (most,) if found.maximum is None else (most, found.maximum)
    return (ListType(found.item, min(bounds)),)


def at_most(items: list[Item], most: int) -> Item:
    bound = integer(most)
    if len(items) > bound:
        raise ValueError(f"the list has {len(items)} items, and may have {bound}")
    return items


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3)).astype(np.float32)
    items: list[Item] = [x, x[:1]]
    return [(items, 2), (items, 9), (["a"], 1)]


OP = Op(
    name="core.at_most",
    summary="Gives a list as it is; fails where it has more items than it may.",
    params=(
        Param("items", "A list."),
        Param("most", "How many items there may be.", constant=True),
    ),
    results=("items",),
    types=types,
    reference=at_most,
    example="few = at_most(unstack(x), 10)",
    samples=samples,
)
