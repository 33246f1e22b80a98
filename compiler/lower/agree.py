"""Whether a value fits a type that is asked for, and what has to be done so that it does."""

from enum import Enum
from typing import NamedTuple, TypeAlias

from ...dsl.dims import Dims
from ...dsl.source import Span
from ...dsl.types import (
    ANY_DIM,
    UNKNOWN,
    Dim,
    DimVar,
    DType,
    ListType,
    OptionalType,
    Signature,
    TensorType,
    Type,
)
from ..dimensions import map_dims, rename_dims
from ..graph import For, OpCall, Region, Value
from .body import Body
from .literals import typed
from .operands import Broken, Known, Made, Single


class Clash(Enum):
    """Why a type is not the one that is asked for."""

    KIND = "kind"  # a list and a scalar
    ABSENT = "absent"  # may be absent, but must be there
    DTYPE = "dtype"
    RANK = "rank"
    DIMS = "dims"
    SEVERAL = "several"


Pairs: TypeAlias = list[tuple[Dim, Dim]]  # found, wanted


def compare_form(found: Type, wanted: Type) -> Clash | Pairs:
    """Compare all but the sizes; return the pairs of dimensions that must be equal."""
    match found, wanted:
        case _ if found == UNKNOWN or wanted == UNKNOWN:
            return []
        case OptionalType(item), OptionalType(other):
            return compare_form(item, other)
        case _, OptionalType(item):
            return compare_form(found, item)
        case OptionalType(), _:
            return Clash.ABSENT
        case TensorType(), TensorType():
            same_rank = len(found.dims) == len(wanted.dims)
            if found.dtype is not wanted.dtype:
                return Clash.DTYPE if same_rank else Clash.SEVERAL
            return list(zip(found.dims, wanted.dims, strict=True)) if same_rank else Clash.RANK
        case ListType(), ListType():
            return compare_form(found.item, wanted.item)
        case _:
            return Clash.KIND


def compare(found: Type, wanted: Type, dims: Dims) -> Clash | None:
    """Make two types equal; None when they are."""
    pairs = compare_form(found, wanted)
    if isinstance(pairs, Clash):
        return pairs
    return None if all(dims.unify(*pair) for pair in pairs) else Clash.DIMS


def adapt(body: Body, single: Single, wanted: Type, span: Span) -> Single:
    """Bring a value to the kind that is wanted: a literal to its dtype, a list to a tensor or back.

    Raises LiteralError for a number that does not fit. What cannot be adapted is returned as it
    is; comparing the types then says why.
    """
    inner = wanted.item if isinstance(wanted, OptionalType) else wanted
    match single, inner:
        case Broken(), _:
            return single
        case Known(), _:
            return typed(single, inner)
        case Made(value=value), TensorType(dims=dims) if isinstance(value.type, ListType):
            item = value.type.item
            if isinstance(item, TensorType) and len(item.dims) + 1 == len(dims):
                return Made(stacked(body, value.type, single, span))
            return single
        case Made(value=value), ListType(item=item, maximum=maximum):
            found = value.type
            if isinstance(found, TensorType) and isinstance(item, TensorType):
                if len(found.dims) != len(item.dims) + 1:
                    return single
                value = unstacked(body, found, single, span)
            return Made(bounded(body, value, maximum, span))
        case _:
            return single


def stacked(body: Body, found: ListType, single: Made, span: Span) -> Value:
    """Add a `for` that gives each item as it is: a tensor of equal items, also of none at all."""
    assert isinstance(found.item, TensorType)
    dims = (body.dims.fresh("n"), *found.item.dims)
    item = Value(body.settle(found.item), "item", span)
    region = Region((item,), (), (item,))
    type = body.settle(TensorType(found.item.dtype, dims))
    names = (single.value.name,)
    return body.add(For(False), (single.value,), (type,), span, "stack", names, regions=(region,))[
        0
    ]


def unstacked(body: Body, found: TensorType, single: Made, span: Span) -> Value:
    """Add `unstack`, which makes a list of the parts along the first axis."""
    op = body.catalog.op("core.unstack")
    count = body.dims.resolve(found.dims[0])
    maximum = count if isinstance(count, int) else None
    type = ListType(TensorType(found.dtype, found.dims[1:]), maximum)
    return body.add(OpCall(op), (single.value,), (type,), span, "unstack", (single.value.name,))[0]


def bounded(body: Body, value: Value, maximum: int | None, span: Span) -> Value:
    """Add `at_most` where a list may be longer than it may be."""
    found = value.type
    if maximum is None or not isinstance(found, ListType):
        return value
    if found.maximum is not None and found.maximum <= maximum:
        return value
    most = body.constant(Known(maximum, TensorType(DType.I64)), span, "most")
    op, type = body.catalog.op("core.at_most"), ListType(found.item, maximum)
    return body.add(OpCall(op), (value, most), (type,), span, "at_most", (value.name,))[0]


def join(left: Type, right: Type, dims: Dims) -> Type | None:
    """Return a type that stands for either of two (the arms of an `if`), None when none does."""
    match left, right:
        case _ if left == UNKNOWN or right == UNKNOWN:
            return UNKNOWN
        case OptionalType(), _:
            return _optional(join(left.item, bare(right), dims))
        case _, OptionalType():
            return _optional(join(left, right.item, dims))
        case TensorType(), TensorType():
            if left.dtype is not right.dtype or len(left.dims) != len(right.dims):
                return None
            joined = [dims.join(*pair) for pair in zip(left.dims, right.dims, strict=True)]
            known = tuple(dim for dim in joined if dim is not None)
            return TensorType(left.dtype, known) if len(known) == len(joined) else None
        case ListType(), ListType():
            item = _join_items(left.item, right.item, dims)
            if item is None:
                return None
            if left.maximum is None or right.maximum is None:
                return ListType(item)
            return ListType(item, max(left.maximum, right.maximum))
        case _:
            return None


class Instance(NamedTuple):
    """A signature as one call sees it. `names` gives what its names stand for in this call."""

    params: tuple[Type, ...]
    results: tuple[Type, ...]
    names: dict[DimVar, Dim]


def instantiate(signature: Signature, dims: Dims) -> Instance:
    """Return the types of one call: names of parameters take the arguments' sizes, names that
    first appear in results are known when the stage has run."""
    names: dict[DimVar, Dim] = {}

    def parameter(variable: DimVar) -> Dim:
        if variable not in names:
            names[variable] = dims.flexible(variable.name)
        return names[variable]

    def result(variable: DimVar) -> Dim:
        if variable not in names:
            names[variable] = dims.fresh(variable.name)
        return names[variable]

    params = tuple(rename_dims(field.type, parameter) for field in signature.params)
    results = tuple(rename_dims(field.type, result) for field in signature.results)
    return Instance(params, results, names)


def _optional(type: Type | None) -> Type | None:
    return None if type is None or type == UNKNOWN else OptionalType(type)


def bare(type: Type) -> Type:
    """Return the type of what an optional value is when it is there."""
    return type.item if isinstance(type, OptionalType) else type


def _join_items(left: Type, right: Type, dims: Dims) -> Type | None:
    """Join the item types of two lists: sizes that differ may differ from item to item."""
    pairs = compare_form(left, right)
    if isinstance(pairs, Clash):
        return None
    joined = iter(
        [one if dims.resolve(one) == dims.resolve(other) else ANY_DIM for one, other in pairs]
    )
    return left if left == right else map_dims(left, lambda _: next(joined))
