"""Which elements are set, and which are different."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..op import Argument, Array, Item, Op, OpTypeError, Param, Sample
from ..rules import tensor
from ..values import array


def nonzero_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    if not (found.dtype.is_number or found.dtype is DType.BOOL):
        raise OpTypeError("x", f"bools or numbers, not {found}")
    rank = len(found.dims)
    if rank == 0:
        raise OpTypeError("x", f"a tensor with an axis, not {found}")
    inner = () if rank == 1 else (rank,)
    return (TensorType(DType.I64, (dims.fresh("n"), *inner)),)


def nonzero(x: Item) -> Array:
    value = array(x)
    places = np.argwhere(value).astype(np.int64)
    return places[:, 0] if value.ndim == 1 else places


def unique_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    if not (found.dtype.is_number or found.dtype in (DType.STRING, DType.BOOL)):
        raise OpTypeError("x", f"numbers, bools or strings, not {found}")
    if len(found.dims) != 1:
        raise OpTypeError("x", f"a row of values, not {found}")
    count = dims.fresh("n")
    return (
        TensorType(found.dtype, (count,)),
        TensorType(DType.I64, found.dims),
        TensorType(DType.I64, (count,)),
    )


def unique(x: Item) -> tuple[Array, Array, Array]:
    values, places, counts = np.unique(array(x), return_inverse=True, return_counts=True)
    return values, places.astype(np.int64), counts.astype(np.int64)


def nonzero_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.integers(-1, 2, (3, 4))
    return [(x > 0,), (x[0] > 0,), (x.astype(np.float32),), (x[0] > 9,), (x[:, :0],)]


def unique_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.integers(-2, 3, 9)
    nan = np.array([1, np.nan, np.nan], np.float32)
    return [(x,), (nan,), (x > 0,), (np.array(["b", "a", "b"], object),), (x[:0],)]


OPS = (
    Op(
        name="core.nonzero",
        summary="Gives the indices of the elements that are true, or not 0, in order: i64[n] of a "
        "row, i64[n, axes] of a tensor with more axes.",
        params=(Param("x", "A tensor of bools or numbers."),),
        results=("indices",),
        types=nonzero_types,
        reference=nonzero,
        example="good = take(boxes, nonzero(scores > 0.5))",
        samples=nonzero_samples,
    ),
    Op(
        name="core.unique",
        summary="Gives the different values of a row in ascending order, the place among them of "
        "each element, and how often each occurs. NaN counts as one value.",
        params=(Param("x", "A row of numbers, bools or strings."),),
        results=("values", "places", "counts"),
        types=unique_types,
        reference=unique,
        example="labels, _, counts = unique(ids)",
        samples=unique_samples,
    ),
)
