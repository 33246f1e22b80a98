"""Regular expressions, as Python's `re` has them.

A pattern is known when compiling and is checked then. One whose repetitions nest, such as
`(a+)+b`, may take exponential time on some texts, and no other item can run beside it meanwhile;
texts are therefore bounded, and patterns should come from whoever writes the pipeline only.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_integer
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..rules import of_dtype, scalar_text
from ..strings import each

X = Param("x", "A string or a tensor of strings.")
PATTERN = Param("pattern", "A regular expression of Python.", constant=True)
LIMIT = Param(
    "max_length",
    "The most characters of a text that is searched; a longer one is an error.",
    constant=True,
    has_default=True,
    default=10_000,
)


def compiled(argument: Argument) -> "re.Pattern[str]":
    if not isinstance(argument.literal, str):
        raise OpTypeError("pattern", f"a string, not {argument.literal!r}")
    try:
        return re.compile(argument.literal)
    except (re.error, OverflowError, RecursionError) as error:
        raise OpTypeError("pattern", f"a regular expression: {error}") from error


def check_limit(argument: Argument) -> None:
    if constant_integer(argument, "max_length") < 1:
        raise OpTypeError("max_length", f"at least 1, not {argument.literal!r}")


def within(text: str, most: int) -> str:
    if len(text) > most:
        raise ValueError(f"the text has {len(text)} characters, more than the {most} allowed")
    return text


def matches_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "x", dims, DType.STRING)
    compiled(arguments[1])
    check_limit(arguments[2])
    return (TensorType(DType.BOOL, found.dims),)


def searched(x: Item, most: int, apply: "Callable[[str], str | bool]", dtype: type) -> Item:
    return each(x, lambda one: apply(within(one, most)), np.dtype(dtype))


def matches(x: Item, pattern: str, max_length: int) -> Item:
    search = re.compile(pattern).search
    return searched(x, max_length, lambda one: search(one) is not None, np.bool_)


def find_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    scalar_text(arguments[0], "x", dims)
    groups = compiled(arguments[1]).groups
    group = constant_integer(arguments[2], "group")
    if not 0 <= group <= groups:
        raise OpTypeError("group", f"0 to {groups}, the groups of the pattern, not {group}")
    check_limit(arguments[3])
    return (TensorType(DType.STRING, (dims.fresh("n"),)),)


def find(x: str, pattern: str, group: int, max_length: int) -> Array:
    found = re.compile(pattern).finditer(within(x, max_length))
    parts = [match[group] or "" for match in found]
    result = np.empty(len(parts), object)
    result[:] = parts
    return result


def substitute_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "x", dims, DType.STRING)
    pattern = compiled(arguments[1])
    if not isinstance(arguments[2].literal, str):
        raise OpTypeError("new", f"a string, not {arguments[2].literal!r}")
    try:
        # What replaces is read only where something is found, as an empty alternative is.
        re.compile(f"(?:{pattern.pattern})|").sub(arguments[2].literal, "", 1)
    except (re.error, IndexError) as error:
        raise OpTypeError("new", f"a text for the pattern: {error}") from error
    check_limit(arguments[3])
    return (found,)


def substitute(x: Item, pattern: str, new: Literal, max_length: int) -> Item:
    expression = re.compile(pattern)
    return searched(x, max_length, lambda one: expression.sub(str(new), one), object)


def matches_samples(_: np.random.Generator) -> Sequence[Sample]:
    words = np.array([["No. 2024", "exit"], ["", "7"]], object)
    return [(words, r"\d+"), ("No. 2024", "^No"), ("abc", "$", 3)]


def find_samples(_: np.random.Generator) -> Sequence[Sample]:
    return [("a1 b22", r"\d+"), ("a1 b22", r"(\w)(\d)?", 2), ("", "x")]


def substitute_samples(_: np.random.Generator) -> Sequence[Sample]:
    words = np.array([["No. 2024", "exit"], ["", "7"]], object)
    return [(words, r"\d", "#"), ("a1 b22", r"(\w)(\d)", r"\2\1")]


OPS = (
    Op(
        name="text.matches",
        summary="Says in which strings a pattern occurs; `^` and `$` stand for start and end.",
        params=(X, PATTERN, LIMIT),
        results=("holds",),
        types=matches_types,
        reference=matches,
        example='dated = text.matches(line, "[0-9]{4}")',
        samples=matches_samples,
    ),
    Op(
        name="text.find_all",
        summary="Gives the parts of a string where a pattern occurs, or a group of each.",
        params=(
            Param("x", "A string."),
            PATTERN,
            Param("group", "The group wanted; 0 is all of it.", True, True, default=0),
            LIMIT,
        ),
        results=("parts",),
        types=find_types,
        reference=find,
        example='numbers = text.find_all(line, "[0-9]+")',
        samples=find_samples,
    ),
    Op(
        name="text.substitute",
        summary="Replaces what a pattern finds; `\\\\1` in `new` stands for its first group.",
        params=(X, PATTERN, Param("new", "What to put there.", constant=True), LIMIT),
        results=("y",),
        types=substitute_types,
        reference=substitute,
        example='y = text.substitute(x, " +", " ")',
        samples=substitute_samples,
    ),
)
