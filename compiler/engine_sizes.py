"""The sizes of a model's inputs that TensorRT is told of: the least, the usual and the most of each
axis, from what the schedule says of dimensions and batches.

    x: f32[3, 48, W], W 48 to 2304, batch up to 16   x  1x3x48x48 to 16x3x48x2304

A name that nothing is said of is a mistake with a place and a cure: TensorRT itself says that no
profile was defined, or that an input it has never heard of is missing.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..dsl.types import Dim, DimArith, DimVar, OptionalType, TensorType
from .graph import Graph, ModelDef, Node
from .plan import ShapeRange
from .policies import Batching, SizeRange
from .rewrite import model_calls

_COMPARE: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Unsized:
    """An axis of which nothing says how long it may be."""

    input: str
    axis: int
    dim: Dim


def shape_ranges(
    model: ModelDef, calls: Sequence[Node], sizes: Mapping[Dim, SizeRange], rows: SizeRange
) -> tuple[tuple[ShapeRange, ...], tuple[Unsized, ...]]:
    """Return the range of each input of a model, its batch axis of `rows` included, and what is
    missing for that. Where it is called several times the range holds all of them."""
    ranges: list[ShapeRange] = []
    missing: dict[Unsized, None] = {}
    names = zip(model.input_names, model.input_axes, strict=True)
    for number, (name, axis) in enumerate(names):
        found: list[SizeRange] = []
        for call in calls:
            dims = _dims(call, number)
            each = [interval(dim, sizes) for dim in dims]
            missing |= {
                Unsized(model.signature.params[number].name, index, dim): None
                for index, (dim, one) in enumerate(zip(dims, each, strict=True))
                if one is None
            }
            known = [one or SizeRange(1, 1, 1) for one in each]
            found = [_hull(*pair) for pair in zip(found, known, strict=True)] if found else known
        if axis is not None:
            found.insert(axis, rows)
        sides = zip(*((one.least, one.usual, one.most) for one in found), strict=True)
        least, usual, most = sides if found else ((), (), ())
        ranges.append(ShapeRange(name, model.signature.params[number].name, least, usual, most))
    return tuple(ranges), tuple(missing)


def rows_range(batching: Batching | None, group: int) -> SizeRange:
    """Return how many rows may run together, usually as many as are preferred."""
    most = batching.maximum if batching is not None else group
    preferred = batching.prefer if batching is not None else ()
    return SizeRange(1, preferred[-1] if preferred else most, most)


def interval(dim: Dim, sizes: Mapping[Dim, SizeRange]) -> SizeRange | None:
    """Return between what a dimension is; None where a name in it has no sizes."""
    if isinstance(dim, int):
        return SizeRange(dim, dim, dim)
    if dim in sizes:
        return sizes[dim]
    if not isinstance(dim, DimArith):
        return None
    left, right = interval(dim.left, sizes), interval(dim.right, sizes)
    if left is None or right is None:
        return None
    usual = _compute(dim.op, left.usual, right.usual)
    if dim.op == "%":  # anything below what it is divided by, or that itself
        exact = left.least == left.most and right.least == right.most
        least, most = (usual, usual) if exact else (0, right.most - 1)
        return SizeRange(least, usual, most)
    corners = [
        _compute(dim.op, one, other)
        for one in (left.least, left.most)
        for other in (right.least, right.most)
    ]
    return SizeRange(max(0, min(corners)), max(0, usual), max(0, *corners))


def holds(left: Dim, op: str, right: Dim, sizes: Mapping[str, int]) -> bool:
    """Return whether a comparison holds for the sizes of names."""
    return _COMPARE[op](_value(left, sizes), _value(right, sizes))


def graph_ranges(
    graph: Graph, model: ModelDef, batching: Batching | None, group: int
) -> tuple[tuple[ShapeRange, ...], tuple[Unsized, ...]]:
    """Return the ranges of a model for all its calls in a pipeline, and what is missing."""
    rows = rows_range(batching, group)
    calls = [node for node, call in model_calls(graph.body) if call.model == model.name]
    return shape_ranges(model, calls, dict(graph.settings.sizes), rows)


def _dims(call: Node, number: int) -> tuple[Dim, ...]:
    kind = call.inputs[number].type
    kind = kind.item if isinstance(kind, OptionalType) else kind
    return kind.dims if isinstance(kind, TensorType) else ()


def _hull(one: SizeRange, other: SizeRange) -> SizeRange:
    return SizeRange(min(one.least, other.least), one.usual, max(one.most, other.most))


def _value(dim: Dim, sizes: Mapping[str, int]) -> int:
    match dim:
        case int():
            return dim
        case DimVar(name=name):
            return sizes[name]
        case DimArith(op=op, left=left, right=right):
            return _compute(op, _value(left, sizes), _value(right, sizes))
        case _:
            raise AssertionError(f"{dim} has no size")


def _compute(op: str, left: int, right: int) -> int:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left // right if right else 0
        case _:
            return left % right if right else 0
