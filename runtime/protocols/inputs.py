"""From the tensors of a request to the values that the engine takes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from ...stdlib.op import Item
from ..request import RequestError
from .datatypes import INT64, Datatype
from .forms import Array, Form, Kind, Shape, objects
from .models import Model
from .names import shown
from .raw import Flat, RawError

Source = TypeVar("Source")


Given: TypeAlias = tuple[str, str, Shape, Source]
"""A tensor as a request declares it: name, datatype, shape, and where its values still are."""

Read: TypeAlias = Callable[[Source, Datatype, int], Flat]
"""Takes that many elements from a source; raises RawError when they are not there."""


def read_inputs(
    model: Model, tensors: Iterable[Given[Source]], read: Read[Source], most: int
) -> dict[str, Item]:
    """Make the engine's inputs; nothing is read before its name, datatype and shape are good.

    A tensor of BYTES has at most `most` elements, each of which becomes an object.
    """
    items: dict[str, Item] = {}
    ragged: dict[str, Given[Source]] = {}
    forms = model.inputs
    for tensor in tensors:
        name, datatype, shape, source = tensor
        form = forms.get(name)
        if form is None or form.kind is Kind.RAGGED:
            if name in ragged:
                raise _twice(model, name)
            ragged[name] = tensor
            continue
        if name in items:
            raise _twice(model, name)
        kind = form.datatype
        if datatype != kind.name:
            raise _wrong_datatype(model, form, datatype)
        try:
            flat = read(source, kind, accept_shape(form, shape, most))
        except RawError as error:
            raise RequestError(f"input `{name}`: {error}", pipeline=model.name) from None
        items[name] = make_item(form, shape, flat)
    return items if not ragged else items | _read_ragged(model, ragged, read, most)


def _twice(model: Model, name: str) -> RequestError:
    return RequestError(f"input {shown(name)} is given twice", pipeline=model.name)


def _wrong_datatype(model: Model, form: Form, datatype: str) -> RequestError:
    return RequestError(
        f"input `{form.name}` ({form.type}) wants {form.datatype.name}, got {shown(datatype)}",
        pipeline=model.name,
    )


def _read_ragged(
    model: Model, given: Mapping[str, Given[Source]], read: Read[Source], most: int
) -> dict[str, Item]:
    """Read the inputs that came, or may have come, with a tensor of their shapes."""
    items: dict[str, Item] = {}
    for name, (_, datatype, shape, source) in given.items():
        form = model.inputs.get(name)
        if form is None:
            _require_partner(model, name, given)
            continue
        if datatype != form.datatype.name:
            raise _wrong_datatype(model, form, datatype)
        with_shapes = form.shape_name in given
        try:
            flat = read(source, form.datatype, accept_shape(form, shape, most, with_shapes))
        except RawError as error:
            raise RequestError(f"input `{name}`: {error}", pipeline=model.name) from None
        if with_shapes:
            items[name] = make_ragged_item(form, flat, _read_shapes(form, given, read))
        else:
            items[name] = make_item(form, shape, flat)
    return items


def _require_partner(model: Model, name: str, given: Mapping[str, Given[Source]]) -> None:
    form = model.shape_inputs.get(name)
    if form is None:
        raise RequestError(
            f"there is no input {shown(name)}; the inputs are {model.valid_inputs}",
            pipeline=model.name,
        )
    if form.name not in given:
        raise RequestError(f"input `{name}` came without `{form.name}`", pipeline=model.name)


def _read_shapes(form: Form, given: Mapping[str, Given[Source]], read: Read[Source]) -> Array:
    name = form.shape_name
    _, datatype, shape, source = given[name]
    count = element_count(name, shape)
    if datatype != INT64.name or len(shape) != 2 or shape[1] != len(form.dims):
        raise RequestError(f"input `{name}` wants INT64 of shape [-1, {len(form.dims)}]")
    try:
        return np.asarray(read(source, INT64, count)).reshape(shape)
    except RawError as error:
        raise RequestError(f"input `{name}`: {error}") from None


_HIGHEST_RANK = 32
# Beyond this NumPy cannot index, whatever the width.
_MOST_ELEMENTS = 1 << 48


def element_count(name: str, shape: Shape) -> int:
    """Multiply a declared shape; RequestError when it is negative or absurd."""
    if len(shape) > _HIGHEST_RANK:
        raise RequestError(f"input `{name}` has {len(shape)} dimensions")
    count = 1
    for size in shape:
        if size <= 0:
            return _degenerate_count(name, shape)
        count *= size
    if count > _MOST_ELEMENTS:
        raise RequestError(f"input `{name}`: shape {list(shape)} has too many elements")
    return count


def _degenerate_count(name: str, shape: Shape) -> int:
    """Return 0 for a shape with a zero in it, unless NumPy could not hold even that."""
    if min(shape) < 0:
        raise RequestError(f"input `{name}`: shape {list(shape)} has a negative dimension")
    return 0 * element_count(name, tuple(max(size, 1) for size in shape))


def accept_shape(form: Form, shape: Shape, most: int, with_shapes: bool = False) -> int:
    """Return the number of elements of a declared shape; RequestError when it does not fit.

    Only ranks are compared: sizes are for the engine, which knows what is bound to what.
    `with_shapes` says that a tensor `NAME_shape` comes along.
    """
    rank = len(shape)
    if form.plain:
        fits = rank == form.rank
    elif with_shapes:
        fits = rank == 1
    elif form.kind is Kind.SCALAR:
        fits = rank == form.rank - 1 or (rank == form.rank and shape[-1] == 1)
    else:
        fits = rank == form.rank
    if fits:
        count = element_count(form.name, shape)
        if count <= most or form.datatype.width:
            return count
        raise RequestError(f"input `{form.name}` has {count} elements of BYTES: at most {most}")
    wants = " with its shapes ".join(str(list(tensor.shape)) for tensor in form.metadata())
    got = list(shape[:_HIGHEST_RANK])
    raise RequestError(f"input `{form.name}` ({form.type}) wants shape {wants}, got {got}")


def make_item(form: Form, shape: Shape, flat: Flat) -> Item:
    """Make the engine's value of a tensor whose shape `accept_shape` has let through."""
    if not isinstance(flat, np.ndarray):
        return _strings(form, shape, flat)
    if form.plain:
        return flat if len(shape) == 1 else flat.reshape(shape)
    if form.kind is Kind.SCALAR:
        return flat if form.batched else flat.reshape(())
    return _listed(form, flat.reshape(shape))


def _strings(form: Form, shape: Shape, flat: Sequence[str | bytes]) -> Item:
    values = _typed(form, flat)
    if form.kind is Kind.SCALAR:
        return list(values) if form.batched else values[0]
    array = objects(values).reshape(shape)
    return array if form.kind is Kind.TENSOR else _listed(form, array)


def _typed(form: Form, flat: Sequence[str | bytes]) -> Sequence[str] | Sequence[bytes]:
    """Return `str` for a `string`, `bytes` for `bytes`, whichever the carrier gave."""
    if not form.text:
        return [value.encode() if isinstance(value, str) else value for value in flat]
    try:
        return [value if isinstance(value, str) else value.decode() for value in flat]
    except UnicodeDecodeError:
        raise RequestError(f"input `{form.name}` is a string, but its bytes are no UTF-8") from None


def _listed(form: Form, array: Array) -> Item:
    return [list(row) for row in array] if form.nested else list(array)


def make_ragged_item(form: Form, flat: Flat, shapes: Array) -> Item:
    """Make a list of the flat values and the rows of `NAME_shape`."""
    rows = [tuple(map(int, row)) for row in shapes]
    sizes = [element_count(form.shape_name, row) for row in rows]
    if sum(sizes) != len(flat):
        raise RequestError(
            f"input `{form.shape_name}` speaks of {sum(sizes)} values, "
            f"but `{form.name}` holds {len(flat)}"
        )
    values = flat if isinstance(flat, np.ndarray) else objects(_typed(form, flat))
    elements: list[Item] = []
    start = 0
    for size, shape in zip(sizes, rows, strict=True):
        element = values[start : start + size].reshape(shape)
        elements.append(list(element) if form.nested else element)
        start += size
    return elements
