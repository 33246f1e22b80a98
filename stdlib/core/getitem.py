"""Indexing and slicing: `x[0]`, `x[1:, :4]`, `x[..., -1]`, `x[i]`.

What is written in the brackets is a literal tuple, one part an axis:

* an integer: that element; the axis goes;
* None: an index made at run time, the next of `indices`; the axis goes;
* (start, stop, step): a slice; each is an integer, None where nothing is written, or "value" for
  a bound made at run time, the next of `indices`;
* "...": as many whole axes as are missing.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DimAny, ListType, TensorType, Type
from ..lowering import MOVABLE, integers, require, tensor_type
from ..op import (
    Argument,
    Array,
    Decline,
    Emitter,
    Item,
    Op,
    Operand,
    OpTypeError,
    Param,
    Sample,
)
from ..rules import scalar_integer, tensor
from ..values import array, integer, scalar_or_array

Bound: TypeAlias = "int | str | None"
Slice: TypeAlias = tuple[Bound, Bound, Bound]
Part: TypeAlias = "int | str | Slice | None"

WHOLE: Slice = (None, None, None)
END = int(np.iinfo(np.int64).max)


def spread(written: Sequence[Part], rank: int) -> list[Part]:
    """Replace "..." by whole axes, and add those that are missing at the end."""
    named = sum(part != "..." for part in written)
    missing: list[Part] = [WHOLE] * (rank - named)
    if "..." not in written:
        return [*written, *missing]
    place = list(written).index("...")
    return [*written[:place], *missing, *written[place + 1 :]]


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    spec = cast("tuple[Part, ...]", arguments[1].literal)  # as lowering makes it
    for index in arguments[2:]:
        scalar_integer(index, "indices", dims)
    if isinstance(arguments[0].type, ListType):
        return (list_type(arguments[0].type, spec, dims),)
    found = tensor(arguments[0], "x", dims)
    named = sum(part != "..." for part in spec)
    if named > len(found.dims):
        axes = len(found.dims)
        raise OpTypeError(
            "x", f"at most {axes} {'index' if axes == 1 else 'indices'}, not {named},"
        )
    result: list[Dim] = []
    for part, dim in zip(spread(spec, len(found.dims)), found.dims, strict=True):
        size = dims.resolve(dim)
        if isinstance(part, tuple):
            result.append(sliced(part, size, dims))
        elif isinstance(part, int) and isinstance(size, int) and not -size <= part < size:
            raise OpTypeError("x", f"an index from {-size} to {size - 1}, not {part},")
    return (TensorType(found.dtype, tuple(result)),)


def list_type(found: ListType, spec: tuple[Part, ...], dims: Dims) -> Type:
    if len(spec) != 1:
        raise OpTypeError("x", f"one index of a list, not {len(spec)},")
    part = spec[0]
    if part == "...":
        return found
    if not isinstance(part, tuple):
        return one_item(found.item, dims)
    if found.maximum is None or not all(isinstance(one, int | None) for one in part):
        return found
    # A slice of a shorter list is never longer than that of the longest one with steps forward
    # from the front; other slices are only known to be no longer than the list.
    start, stop, step = part
    plain = all(one is None or (isinstance(one, int) and one >= 0) for one in part)
    if not plain:
        return found
    most = len(range(*slice(start, stop, step).indices(found.maximum)))
    return ListType(found.item, most)


def one_item(item: Type, dims: Dims) -> Type:
    """Return the type of one item: what `_` leaves open among the items is one size in it."""
    if not isinstance(item, TensorType):
        return item
    sizes = (dims.fresh("n") if isinstance(dim, DimAny) else dim for dim in item.dims)
    return TensorType(item.dtype, tuple(sizes))


def sliced(part: Slice, size: Dim, dims: Dims) -> Dim:
    """Return how many elements a slice takes of an axis."""
    start, stop, step = part
    if step == 0:
        raise OpTypeError("x", "a step other than 0")
    if start in (None, 0) and stop is None and step in (None, 1):
        return size
    if not isinstance(size, int) or "value" in part:
        return dims.fresh("n")
    return len(range(*slice(*cast("tuple[int | None, ...]", part)).indices(size)))


def reference(x: Item, spec: tuple[Part, ...], *indices: Item) -> Item:
    given = iter(indices)
    if isinstance(x, list):
        index = index_of(spec[0], given)  # of a list only one
        if not isinstance(index, slice) and not -len(x) <= index < len(x):
            raise IndexError(f"index {index} is out of bounds for a list of {len(x)}")
        return x[cast("int", index)]  # a slice is taken as well
    value = array(x)
    return scalar_or_array(value[tuple(index_of(part, given) for part in spec)])


def index_of(part: Part, given: Iterator[Item]) -> "int | slice":
    """Return what NumPy or a list is indexed with; `given` are the run-time integers."""
    if isinstance(part, tuple):
        bounds = [integer(next(given)) if one == "value" else one for one in part]
        return slice(*bounds)
    if part == "...":
        return cast("slice", ...)  # NumPy takes it in its place
    return integer(next(given)) if part is None else cast("int", part)


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    if len(operands) > 2:
        raise Decline("an index made at run time may differ from row to row")
    found = tensor_type(operands[0].type)
    require(found.dtype, MOVABLE, "Slice")
    x = emit.tensor(operands[0])
    rank = len(found.dims)
    written = cast("tuple[Part, ...]", operands[1].literal)  # as lowering makes it
    whole = list(enumerate(spread(written, rank)))
    slices = [(axis, part) for axis, part in whole if isinstance(part, tuple) and part != WHOLE]
    if slices:
        bounds = [slice_bounds(part, found.dims[axis]) for axis, part in slices]
        starts, stops, steps = (integers(emit, row) for row in zip(*bounds, strict=True))
        axes = integers(emit, [emit.axis(axis, rank) for axis, _ in slices])
        (x,) = emit.node("Slice", [x, starts, stops, axes, steps])
    for axis, part in reversed(whole):
        if isinstance(part, int):
            index = emit.constant(np.array(part, np.int64))
            (x,) = emit.node("Gather", [x, index], axis=emit.axis(axis, rank))
    return (x,)


def slice_bounds(part: Slice, size: Dim) -> tuple[int, int, int]:
    """Return start, end and step of a slice as ONNX reads them."""
    start, stop, step = cast("tuple[int | None, ...]", part)
    step = 1 if step is None else step
    if isinstance(size, int) and not len(range(*slice(start, stop, step).indices(size))):
        return (0, 0, 1)
    if step > 0:
        return (0 if start is None else start, END if stop is None else stop, step)
    if start is not None and start < 0 and not isinstance(size, int):
        raise Decline("ONNX starts a slice backwards at the first element if it would be before it")
    return (END if start is None else start, -END if stop is None else stop, step)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x: Array = random.normal(0, 1, (5, 4, 3)).astype(np.float32)
    words = np.array(["a", "b", "c"], object)
    boxes: list[Item] = [random.normal(0, 1, (n, 2)) for n in (1, 2, 3)]
    two = np.array(2)
    return [
        (x, (0,)),
        (x, (-1,)),
        (x, (1, 2, 0)),
        (x, (WHOLE, 1)),
        (x, ((1, None, None), (None, 4, None))),
        (x, ((None, None, -1),)),
        (x, ((-2, 0, -1), "...", -1)),
        (x, ((None, -1, 2), -1, (1, 99, None))),
        (x, ("...", 0)),
        (x, (None, WHOLE, 1), two),
        (x, (("value", None, None),), two),
        (x, (("value", "value", None), None), np.array(1), np.array(3), np.array(0)),
        (x.astype(np.float16), ((1, 3, None),)),
        (x > 0, (0, (1, None, None))),
        (words, (1,)),
        (words, ((1, None, None),)),
        (boxes, (1,)),
        (boxes, (None,), two),
        (boxes, ((1, None, None),)),
    ]


OP = Op(
    name="core.getitem",
    summary="Takes elements and slices of a tensor or list, as NumPy does: `x[0]`, `x[1:, :4]`. "
    "An index outside is an error; a slice is cut to what there is.",
    params=(
        Param("x", "A tensor or list."),
        Param("spec", "What is written in the brackets.", constant=True),
        Param("indices", "The integers in it that are made at run time.", variadic=True),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    example="y = x[1:, :4]",
    samples=samples,
)
