"""Strings to strings, each on its own."""

from collections.abc import Callable, Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, Type
from ..op import Argument, Array, Item, Op, Param, Reference, Sample, TypeRule
from ..rules import of_dtype, scalar_text
from ..strings import each

X = Param("x", "A string or a tensor of strings.")


def same_types(*texts: str) -> TypeRule:
    """Make the rule of an op on strings `x` whose further parameters are single strings."""

    def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
        found = of_dtype(arguments[0], "x", dims, DType.STRING)
        for argument, name in zip(arguments[1:], texts, strict=True):
            scalar_text(argument, name, dims)
        return (found,)

    return types


def applied(apply: Callable[..., str]) -> Reference:
    def reference(x: Item, *texts: str) -> Item:
        return each(x, lambda one: apply(one, *texts), np.dtype(object))

    return reference


def samples(_: np.random.Generator) -> Sequence[Sample]:
    words: Array = np.array([[" Straße ", "ÉTÉ"], ["", "a b"]], object)
    return [(words,), (" Abc ",)]


def replace_samples(random: np.random.Generator) -> Sequence[Sample]:
    return [(*sample, " ", "_") for sample in samples(random)]


def text_op(name: str, summary: str, apply: Callable[[str], str]) -> Op:
    return Op(
        name=f"text.{name}",
        summary=summary,
        params=(X,),
        results=("y",),
        types=same_types(),
        reference=applied(apply),
        example=f"y = text.{name}(x)",
        samples=samples,
    )


OPS = (
    text_op("lower", "Makes letters small.", str.lower),
    text_op("upper", "Makes letters capital.", str.upper),
    text_op("strip", "Removes white space at both ends.", str.strip),
    Op(
        name="text.replace",
        summary="Replaces every occurrence of a text by another.",
        params=(X, Param("old", "What to replace."), Param("new", "What to put there.")),
        results=("y",),
        types=same_types("old", "new"),
        reference=applied(str.replace),
        example='y = text.replace(x, "\\n", " ")',
        samples=replace_samples,
    ),
)
