"""One string to several, and back."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..op import Argument, Array, Item, Op, OpTypeError, Param, Sample
from ..rules import of_dtype, scalar, scalar_text
from ..values import array


def split_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    scalar_text(arguments[0], "x", dims)
    if arguments[1].known and arguments[1].literal == "":
        raise OpTypeError("separator", "a text that is not empty; without it white space separates")
    if not (arguments[1].known and arguments[1].literal is None):
        scalar_text(arguments[1], "separator", dims)
    return (TensorType(DType.STRING, (dims.fresh("n"),)),)


def split(x: str, separator: str | None) -> Array:
    parts = x.split(separator)
    result = np.empty(len(parts), object)
    result[:] = parts
    return result


def join_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "parts", dims, DType.STRING)
    if len(found.dims) != 1:
        raise OpTypeError("parts", f"a row of strings, not {found}")
    scalar_text(arguments[1], "separator", dims)
    return scalar(DType.STRING)


def join(parts: Item, separator: str) -> str:
    words = parts if isinstance(parts, list) else array(parts).tolist()
    return separator.join(str(word) for word in words)


def split_samples(_: np.random.Generator) -> Sequence[Sample]:
    return [("a  b c",), ("a,b,,c", ","), ("",), ("", ",")]


def join_samples(_: np.random.Generator) -> Sequence[Sample]:
    words = np.array(["a", "b", ""], object)
    return [(words,), (words, ", "), (words[:0],), (["x", "y"], "-")]


OPS = (
    Op(
        name="text.split",
        summary="Cuts a string at a separator, or at white space when none is given (empty parts "
        "are then left out).",
        params=(
            Param("x", "A string."),
            Param("separator", "Where to cut.", has_default=True),
        ),
        results=("parts",),
        types=split_types,
        reference=split,
        example='words = text.split(line, " ")',
        samples=split_samples,
    ),
    Op(
        name="text.join",
        summary="Joins a row of strings to one.",
        params=(
            Param("parts", "Strings [n] or a list of them."),
            Param("separator", "What to put in between.", has_default=True, default=""),
        ),
        results=("x",),
        types=join_types,
        reference=join,
        example='page = text.join(words, " ")',
        samples=join_samples,
    ),
)
