"""How a pipeline's values travel: which tensors stand for a parameter or result.

    value of one item           without `batch`              in a `batch` pipeline
    f32, string                 [1] ([] is accepted)         [B, 1] ([B] is accepted)
    f32[3, H]                   [3, H]                       [B, 3, H]
    list<f32[4], 9>             [n, 4]                       ragged, one element a row
    list<f32[3, W], 9>          ragged, one element an item  no form

Ragged is the flat values of all elements and a second tensor `NAME_shape`, [elements, rank]. A
list travels so when its type leaves open whether shapes agree, whatever the shapes of a given
answer, so that a client knows what to expect. `inputs.py` and `results.py` convert.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...dsl.types import DType, Field, ListType, OptionalType, TensorType, Type
from .datatypes import DATATYPES, INT64, Datatype

Array: TypeAlias = "NDArray[np.generic]"
Shape: TypeAlias = tuple[int, ...]


class Kind(Enum):
    """What one item is to the wire."""

    SCALAR = "scalar"
    TENSOR = "tensor"
    LIST = "list"  # of items of one known shape
    RAGGED = "ragged"


class TensorMetadata(NamedTuple):
    """A tensor as metadata describes it; -1 is any size."""

    name: str
    datatype: Datatype
    shape: Shape


@dataclass(frozen=True, slots=True)
class Form:
    """One parameter or result. `dims` are of an item (SCALAR, TENSOR), of an item of the list
    (LIST) or of an element (RAGGED), -1 where any size goes. With `nested` the elements of a
    ragged value are lists themselves. `text` tells `string` from `bytes`."""

    name: str
    type: Type
    kind: Kind
    datatype: Datatype
    dims: Shape
    batched: bool
    text: bool
    nested: bool
    optional: bool
    rank: int  # of the tensor that stands for the value, unless it comes as ragged
    plain: bool  # a tensor of numbers: what most values are, and the shortest way

    @property
    def shape_name(self) -> str:
        return f"{self.name}_shape"

    def metadata(self) -> tuple[TensorMetadata, ...]:
        """Return the tensors that stand for the value, the batch axis included."""
        front = (-1,) if self.batched or self.kind is Kind.LIST else ()
        match self.kind:
            case Kind.SCALAR:
                return (TensorMetadata(self.name, self.datatype, (*front, 1)),)
            case Kind.TENSOR | Kind.LIST:
                return (TensorMetadata(self.name, self.datatype, (*front, *self.dims)),)
            case Kind.RAGGED:
                return (
                    TensorMetadata(self.name, self.datatype, (-1,)),
                    TensorMetadata(self.shape_name, INT64, (-1, len(self.dims))),
                )


class NoForm(ValueError):
    """A value of this type cannot travel."""


def form_of(field: Field, batched: bool) -> Form:
    """Decide how a parameter or result travels; NoForm when nothing fits."""
    optional = isinstance(field.type, OptionalType)
    item = field.type.item if isinstance(field.type, OptionalType) else field.type
    match item:
        case TensorType():
            kind = Kind.TENSOR if item.dims else Kind.SCALAR
            return _form(field, item, kind, _sizes(item), batched, False, optional)
        case ListType(TensorType() as element):
            sizes = _sizes(element)
            if not batched:
                kind = Kind.RAGGED if -1 in sizes else Kind.LIST
                return _form(field, element, kind, sizes, False, False, optional)
            if -1 not in sizes:
                return _form(field, element, Kind.RAGGED, (-1, *sizes), True, True, optional)
        case ListType(ListType(TensorType() as element)):
            sizes = _sizes(element)
            if not batched and -1 not in sizes:
                return _form(field, element, Kind.RAGGED, (-1, *sizes), False, True, optional)
        case _:
            pass
    raise NoForm(f"`{field.name}` is {field.type}: lists within lists of open shape cannot travel")


def _form(
    field: Field,
    element: TensorType,
    kind: Kind,
    dims: Shape,
    batched: bool,
    nested: bool,
    optional: bool,
) -> Form:
    datatype = DATATYPES[element.dtype]
    leading = int(batched or kind in (Kind.LIST, Kind.RAGGED))
    return Form(
        field.name,
        field.type,
        kind,
        datatype,
        dims,
        batched,
        element.dtype is DType.STRING,
        nested,
        optional,
        leading + (1 if kind is Kind.SCALAR else len(dims)),
        kind is Kind.TENSOR and datatype.width > 0,
    )


def _sizes(type: TensorType) -> Shape:
    return tuple(dim if isinstance(dim, int) else -1 for dim in type.dims)


def objects(values: Sequence[str | bytes]) -> Array:
    """Return an object array of the values, one element each."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
