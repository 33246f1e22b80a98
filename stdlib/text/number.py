"""Numbers as text, and text as numbers."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_dtype, constant_integer
from ..dtypes import integer_range, to_numpy
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..rules import number, of_dtype
from ..values import array, integers, scalar_or_array

DTYPES = (DType.F32, DType.F64, DType.I32, DType.I64)


def parse_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "x", dims, DType.STRING)
    dtype = constant_dtype(arguments[1], "dtype")
    if dtype not in DTYPES:
        raise OpTypeError("dtype", f"f32, f64, i32 or i64, not {dtype.value}")
    return (TensorType(dtype, found.dims),)


def parse(x: Item, dtype: DType) -> Array:
    words = array(x)
    values = [number_of(str(word), dtype) for word in words.reshape(-1).tolist()]
    with np.errstate(over="ignore"):
        return np.array(values, to_numpy(dtype)).reshape(words.shape)


def number_of(text: str, dtype: DType) -> "int | float":
    """Return the number that a text is; white space around it does not count."""
    try:
        value = float(text) if dtype.is_float else int(text)
    except ValueError as error:
        kind = "number" if dtype.is_float else "integer"
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise ValueError(f"{shown!r} is no {kind}") from error
    if dtype.is_integer:
        low, high = integer_range(dtype)
        if not low <= value <= high:
            raise ValueError(f"{value} does not fit {dtype.value} ({low} to {high})")
    return value


def format_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = number(arguments[0], "x", dims)
    if arguments[1].literal is not None:
        decimals = constant_integer(arguments[1], "decimals")
        if not 0 <= decimals <= 99:
            raise OpTypeError("decimals", f"0 to 99, not {decimals}")
    return (TensorType(DType.STRING, found.dims),)


def format_number(x: "Item | Literal", decimals: Literal) -> Item:
    values = array(x)
    places = None if decimals is None else integers(decimals)[0]
    words = np.empty(values.shape, object)
    flat = values.reshape(-1)
    words.reshape(-1)[:] = [
        str(value) if places is None else f"{value.item():.{places}f}" for value in flat
    ]
    return scalar_or_array(words)


def parse_samples(_: np.random.Generator) -> Sequence[Sample]:
    words = np.array([["1.5", "-3e2"], [" 7 ", "nan"]], object)
    whole = np.array(["12", "-3"], object)
    return [(words,), ("0.1", DType.F64), (whole, DType.I64), (whole[:0], DType.I32), ("1e99",)]


def format_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3)).astype(np.float32)
    return [(x,), (x, 2), (x[0, 0], 0), (np.array([1, -2]),), (np.array(3), 1), (x[:0], 1), (3,)]


OPS = (
    Op(
        name="text.to_number",
        summary="Reads a number from a string; one that is none is an error.",
        params=(
            Param("x", "A string or a tensor of strings."),
            Param(
                "dtype",
                "The dtype: f32, f64, i32 or i64.",
                True,
                has_default=True,
                default=DType.F32,
            ),
        ),
        results=("y",),
        types=parse_types,
        reference=parse,
        example="total = text.to_number(line)",
        samples=parse_samples,
    ),
    Op(
        name="text.format",
        summary="Writes numbers as text: with `decimals` digits after the point, or with as few "
        "as tell them apart.",
        params=(
            Param("x", "A number or a tensor of them."),
            Param("decimals", "Digits after the point.", constant=True, has_default=True),
        ),
        results=("y",),
        types=format_types,
        reference=format_number,
        example="shown = text.format(scores, decimals = 2)",
        samples=format_samples,
    ),
)
