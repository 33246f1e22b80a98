"""Whether strings hold a text."""

from collections.abc import Callable, Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..op import Argument, Item, Op, Param, Reference, Sample
from ..rules import of_dtype, scalar_text
from ..strings import each

PARAMS = (
    Param("x", "A string or a tensor of strings."),
    Param("part", "The text to look for."),
)


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "x", dims, DType.STRING)
    scalar_text(arguments[1], "part", dims)
    return (TensorType(DType.BOOL, found.dims),)


def holds(apply: Callable[[str, str], bool]) -> Reference:
    def reference(x: Item, part: str) -> Item:
        return each(x, lambda one: apply(one, part), np.dtype(np.bool_))

    return reference


def has(x: str, part: str) -> bool:
    return part in x


def begins(x: str, part: str) -> bool:
    return x.startswith(part)


def ends(x: str, part: str) -> bool:
    return x.endswith(part)


def samples(_: np.random.Generator) -> Sequence[Sample]:
    words = np.array(["table", "stab", ""], object)
    return [(words, "ta"), ("table", "ta"), (words, ""), ("table", "le")]


def search_op(name: str, summary: str, apply: Callable[[str, str], bool]) -> Op:
    return Op(
        name=f"text.{name}",
        summary=summary,
        params=PARAMS,
        results=("holds",),
        types=types,
        reference=holds(apply),
        example=f'hit = text.{name}(line, "Total")',
        samples=samples,
    )


OPS = (
    search_op("contains", "Says which strings hold a text.", has),
    search_op("starts_with", "Says which strings begin with a text.", begins),
    search_op("ends_with", "Says which strings end with a text.", ends),
)
