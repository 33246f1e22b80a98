"""Characters: their bytes, their normal forms, lines and parts of a string."""

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_choice
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..rules import of_dtype, scalar, scalar_integer, scalar_text
from ..strings import each
from ..values import integer

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
MALFORMED = ("strict", "replace")
X = Param("x", "A string or a tensor of strings.")


def normalize_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "x", dims, DType.STRING)
    constant_choice(arguments[1], "form", FORMS)
    return (found,)


def normalize(x: Item, form: str) -> Item:
    chosen: Any = form  # Any: one of four literals, as the shape rule requires
    return each(x, lambda one: unicodedata.normalize(chosen, one), np.dtype(object))


def lines_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    scalar_text(arguments[0], "x", dims)
    return (TensorType(DType.STRING, (dims.fresh("n"),)),)


def lines(x: str) -> Array:
    parts = x.splitlines()
    result = np.empty(len(parts), object)
    result[:] = parts
    return result


def slice_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "x", dims, DType.STRING)
    for argument, name in zip(arguments[1:], ("start", "stop"), strict=True):
        if not (argument.known and argument.literal is None):
            scalar_integer(argument, name, dims)
    return (found,)


def part(x: Item, start: "Item | Literal", stop: "Item | Literal") -> Item:
    bounds = slice(integer(start), None if stop is None else integer(stop))
    return each(x, lambda one: one[bounds], np.dtype(object))


def decode_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "data", dims, DType.BYTES)
    if found.dims:
        raise OpTypeError("data", f"bytes, not {found}")
    constant_choice(arguments[1], "malformed", MALFORMED)
    return scalar(DType.STRING)


def decode(data: bytes, malformed: str) -> str:
    try:
        return data.decode("utf-8", errors=malformed)
    except UnicodeDecodeError as error:
        raise ValueError(f"the bytes are no UTF-8: byte {error.start}, {error.reason}") from error


def encode_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    scalar_text(arguments[0], "x", dims)
    return scalar(DType.BYTES)


def encode(x: str) -> bytes:
    return x.encode("utf-8")


def words() -> Array:
    return np.array([["é", "ﬁ"], ["", "Straße"]], object)


def normalize_samples(_: np.random.Generator) -> Sequence[Sample]:
    return [(words(), form) for form in FORMS] + [("é",), (words()[:0],)]


def slice_samples(_: np.random.Generator) -> Sequence[Sample]:
    return [(words(), 1), ("Straße", -3), ("Straße", np.array(1), 4), ("", 5, 9)]


OPS = (
    Op(
        name="text.normalize",
        summary="Brings equal characters that are written differently into one Unicode form.",
        params=(X, Param("form", '"NFC", "NFD", "NFKC" or "NFKD".', True, True, default="NFC")),
        results=("y",),
        types=normalize_types,
        reference=normalize,
        example='y = text.normalize(x, "NFKC")',
        samples=normalize_samples,
    ),
    Op(
        name="text.lines",
        summary="Cuts a string into its lines, without what ends them.",
        params=(Param("x", "A string."),),
        results=("lines",),
        types=lines_types,
        reference=lines,
        example="rows = text.lines(x)",
        samples=lambda _: [("a\nb\r\n\nc",), ("",), ("one",)],
    ),
    Op(
        name="text.slice",
        summary="Takes a part of each string by the places of characters, as Python does: "
        "negative ones count from the end.",
        params=(
            X,
            Param("start", "The first character."),
            Param("stop", "The first that is left out; none if not given.", has_default=True),
        ),
        results=("y",),
        types=slice_types,
        reference=part,
        example="y = text.slice(x, 0, 100)",
        samples=slice_samples,
    ),
    Op(
        name="text.decode",
        summary="Makes a string of bytes in UTF-8.",
        params=(
            Param("data", "The bytes."),
            Param(
                "malformed",
                '"strict": other bytes are an error; "replace": they become U+FFFD.',
                constant=True,
                has_default=True,
                default="strict",
            ),
        ),
        results=("x",),
        types=decode_types,
        reference=decode,
        example="message = text.decode(document)",
        samples=lambda _: [(b"caf\xc3\xa9",), (b"caf\xc3", "replace"), (b"",)],
    ),
    Op(
        name="text.encode",
        summary="Makes bytes in UTF-8 of a string.",
        params=(Param("x", "A string."),),
        results=("data",),
        types=encode_types,
        reference=encode,
        example="data = text.encode(line)",
        samples=lambda _: [("café",), ("",)],
    ),
)
