"""From the engine's results to the tensors of a response."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...stdlib.op import Item
from ..request import Code, Fault, RequestError
from .datatypes import INT64, Datatype
from .forms import Array, Form, Kind, Shape, objects
from .raw import Flat


class WireTensor(NamedTuple):
    """A tensor on its way out."""

    name: str
    datatype: Datatype
    shape: Shape
    flat: Flat


def result_tensors(form: Form, item: Item) -> tuple[WireTensor, ...]:
    """Return the tensors of a result; none for an optional result that is absent."""
    if form.plain and isinstance(item, np.ndarray):
        datatype = form.datatype
        if item.dtype is datatype.numpy or item.dtype == datatype.numpy:
            return (WireTensor(form.name, datatype, item.shape, item),)
    if form.optional:
        if item is None:
            return ()
        if form.batched:
            item = _present(form, item)
            if item is None:
                return ()
    match form.kind:
        case Kind.SCALAR if form.batched:
            array = _rows(form, item)
            return (_tensor(form, array, (len(array), 1)),)
        case Kind.SCALAR:
            return (_tensor(form, _array(form, item), (1,)),)
        case Kind.TENSOR if form.batched:
            return (_whole(form, _rows(form, item)),)
        case Kind.TENSOR:
            return (_whole(form, _array(form, item)),)
        case Kind.LIST:
            return (_whole(form, _rows(form, item)),)
        case Kind.RAGGED:
            return _ragged(form, [_element(form, one) for one in _walk(form, item)])


def _present(form: Form, item: Item) -> Item:
    """Return the rows of an optional value, None where it is absent from all of them."""
    rows = list(_walk(form, item))
    absent = sum(one is None for one in rows)
    if absent == len(rows) and rows:
        return None
    if absent:
        raise RequestError(
            f"`{form.name}` is absent from {absent} of {len(rows)} rows, and what travels is there "
            "for all rows or for none: ask for the others in a request of their own"
        )
    return rows


def _rows(form: Form, item: Item) -> Array:
    if isinstance(item, np.ndarray):
        return _array(form, item)
    return _stacked(form, [_array(form, one) for one in _walk(form, item)])


def _element(form: Form, item: Item) -> Array:
    if not form.nested or isinstance(item, np.ndarray):
        return _array(form, item)
    inner = [_array(form, one) for one in _walk(form, item)]
    return np.stack(inner) if inner else np.empty((0, *form.dims[1:]), form.datatype.numpy)


def _stacked(form: Form, arrays: Sequence[Array]) -> Array:
    if arrays:
        return np.stack(arrays)
    return np.empty((0, *(max(size, 0) for size in form.dims)), form.datatype.numpy)


def _array(form: Form, item: Item) -> Array:
    if not form.datatype.width:
        return item if isinstance(item, np.ndarray) else _scalar_string(form, item)
    array = np.asarray(item)
    if array.dtype != form.datatype.numpy:
        raise Fault(
            Code.INTERNAL,
            f"result `{form.name}` should be {form.datatype.name}, but is {array.dtype}",
        )
    return array


def _scalar_string(form: Form, item: Item) -> Array:
    if not isinstance(item, str | bytes):
        raise Fault(
            Code.INTERNAL,
            f"result `{form.name}` should be a string or bytes, but is {type(item).__name__}",
        )
    return objects([item]).reshape(())


def _walk(form: Form, item: Item) -> Iterable[Item]:
    if isinstance(item, list):
        return item
    if isinstance(item, np.ndarray):
        return list(item)
    raise Fault(
        Code.INTERNAL, f"result `{form.name}` should be a list, but is {type(item).__name__}"
    )


def _whole(form: Form, array: Array) -> WireTensor:
    return _tensor(form, array, array.shape)


def _tensor(form: Form, array: Array, shape: Shape) -> WireTensor:
    flat: Flat = array if form.datatype.width else array.ravel().tolist()
    return WireTensor(form.name, form.datatype, shape, flat)


def _ragged(form: Form, elements: Sequence[Array]) -> tuple[WireTensor, ...]:
    empty = np.empty(0, form.datatype.numpy)
    values = np.concatenate([element.ravel() for element in elements]) if elements else empty
    shapes = np.array([element.shape for element in elements], INT64.numpy)
    shapes = shapes.reshape(len(elements), len(form.dims))
    return (
        _whole(form, values),
        WireTensor(form.shape_name, INT64, shapes.shape, shapes),
    )
