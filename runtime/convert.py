"""Values that come from outside (a caller, a Python function) become items of a declared type.

`converter(type)` is prepared once; it returns the item, or raises Mismatch saying what is wrong
and how to cure it. What is accepted loses nothing: Python numbers and lists take the declared
dtype when it can hold them (a Python float is rounded to f16, f32), arrays must have it already.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np

from ..dsl.types import (
    DType,
    ListType,
    OptionalType,
    TensorType,
    Type,
    UnknownType,
)
from ..stdlib.dtypes import from_numpy, integer_range, to_numpy
from ..stdlib.op import Array, Item
from .shapes import Bindings, bind, names

Convert: TypeAlias = Callable[[object, Bindings], Item]


class Mismatch(Exception):
    """A value does not fit its type; the text reads after the name of the value."""


def converter(kind: Type) -> Convert:
    """Return the function that turns a value into an item of this type, binding dimensions."""
    match kind:
        case TensorType(dtype=DType.STRING | DType.BYTES):
            return _strings(kind)
        case TensorType():
            return _numbers(kind)
        case ListType():
            return _list(kind)
        case OptionalType():
            inner = converter(kind.item)
            return lambda value, bindings: None if value is None else inner(value, bindings)
        case UnknownType():
            raise AssertionError("a plan holds no unknown types")


def _numbers(kind: TensorType) -> Convert:
    dtype, dims, rank = to_numpy(kind.dtype), kind.dims, len(kind.dims)
    fixed = tuple((axis, dim) for axis, dim in enumerate(dims) if isinstance(dim, int))
    named = bool(names([kind]))
    whole = dims if all(isinstance(dim, int) for dim in dims) else None

    def convert(value: object, bindings: Bindings) -> Item:
        if type(value) is not np.ndarray or (value.dtype is not dtype and value.dtype != dtype):
            value = _array(value, kind, dtype)
        array: Array = value
        shape = array.shape
        if shape == whole:
            return array
        if len(shape) != rank:
            raise Mismatch(f"has shape {list(shape)}, expected {kind}")
        for axis, size in fixed:
            if shape[axis] != size:
                raise Mismatch(f"has shape {list(shape)}, expected {kind}")
        if named:
            wrong = bind(dims, shape, bindings)
            if wrong is not None:
                raise Mismatch(f"has shape {list(shape)}, expected {kind}: it {wrong}")
        return array

    return convert


# Any: of any scalar
def _array(value: object, kind: TensorType, dtype: "np.dtype[Any]") -> Array:
    if isinstance(value, np.ndarray):
        return _same_dtype(_plain(cast("Array", value), kind), kind, dtype)
    if isinstance(value, np.generic) and not isinstance(value, float):
        return _same_dtype(np.asarray(value), kind, dtype)
    if isinstance(value, bool | int | float | np.floating):
        return _number(value, kind, dtype)
    if isinstance(value, list | tuple):
        return _nested(cast("list[object]", value), kind, dtype)
    if hasattr(value, "__dlpack__"):
        return _same_dtype(from_dlpack(value), kind, dtype)
    raise Mismatch(f"is {_described(value)}, expected {kind}")


def from_dlpack(value: object) -> Array:
    """Return the array that another library has in host memory, without a copy."""
    try:
        return np.from_dlpack(cast("Any", value))  # Any: `hasattr` has looked
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise Mismatch(
            f"is {_described(value)}, which NumPy cannot take over ({error}); give it as an array "
            "in host memory"
        ) from error


def _plain(array: Array, kind: TensorType) -> Array:
    """Return an array of no subclass of NumPy's, which would compute in a way of its own."""
    if type(array) is np.ndarray:
        return array
    if isinstance(array, np.ma.MaskedArray):
        raise Mismatch(
            f"is a masked array, expected {kind}; say what stands for what is masked: x.filled(0)"
        )
    return array.view(np.ndarray)


def _same_dtype(array: Array, kind: TensorType, dtype: "np.dtype[Any]") -> Array:  # Any: as above
    if array.dtype == dtype:
        return array
    if array.dtype.newbyteorder("=") == dtype:
        return array.astype(dtype)
    found = from_numpy(array.dtype)
    shown = found.value if found else str(array.dtype)
    raise Mismatch(
        f"is {shown}{list(array.shape) if array.ndim else ''}, expected {kind}; "
        f"convert it: x.astype({_spelling(kind.dtype)})"
    )


def _spelling(dtype: DType) -> str:
    name = to_numpy(dtype).name
    return f"ml_dtypes.{name}" if dtype is DType.BF16 else f"np.{name}"


# Any: of any scalar
def _number(value: "float | np.floating[Any]", kind: TensorType, dtype: "np.dtype[Any]") -> Array:
    if (wrong := _loss(value, kind.dtype)) is not None:
        raise Mismatch(f"{wrong}, expected {kind}")
    return np.asarray(value, dtype)


def _loss(value: "float | np.floating[Any]", dtype: DType) -> str | None:  # Any: of any scalar
    """Return why a Python number does not fit, None when it does."""
    if dtype is DType.BOOL or isinstance(value, bool):
        fits = dtype is DType.BOOL and isinstance(value, bool)
        return None if fits else f"is the {type(value).__name__} {value!r}"
    if dtype.is_integer:
        if not isinstance(value, int):
            return f"is the {type(value).__name__} {value!r}"
        low, high = integer_range(dtype)
        return None if low <= value <= high else f"is {value}, which {dtype.value} cannot hold"
    numpy = to_numpy(dtype)
    with np.errstate(over="ignore"):
        held = float(np.asarray(value, numpy))
    if (isinstance(value, int) and held != value) or (np.isinf(held) and not np.isinf(value)):
        return f"is {value!r}, which {dtype.value} cannot hold"
    return None


# Any: of any scalar
def _nested(values: "list[object]", kind: TensorType, dtype: "np.dtype[Any]") -> Array:
    if any(isinstance(value, np.ndarray) for value in values):
        arrays = [_array(value, kind, dtype) for value in values]
        for index, array in enumerate(arrays):
            if array.shape != arrays[0].shape:
                raise Mismatch(
                    f"has shape {list(array.shape)} in item {index} and {list(arrays[0].shape)} "
                    f"in item 0, expected {kind}"
                )
        return np.stack(arrays)
    try:
        raw = np.array(values, object) if not values else np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise Mismatch(f"is a list whose items differ in shape, expected {kind}") from error
    for leaf in _leaves(values):
        if not isinstance(leaf, bool | int | float | np.floating):
            if isinstance(leaf, np.generic):
                _same_dtype(np.asarray(leaf), kind, dtype)
                continue
            raise Mismatch(f"holds {_described(leaf)}, expected {kind}")
        if (wrong := _loss(leaf, kind.dtype)) is not None:
            raise Mismatch(f"holds a value that {wrong}, expected {kind}")
    if not values:
        return np.empty((0, *(d if isinstance(d, int) else 0 for d in kind.dims[1:])), dtype)
    return np.asarray(values, dtype).reshape(raw.shape)


def _leaves(value: object) -> "list[object]":
    if not isinstance(value, list | tuple):
        return [value]
    return [leaf for one in cast("list[object]", value) for leaf in _leaves(one)]


def _strings(kind: TensorType) -> Convert:
    wanted = str if kind.dtype is DType.STRING else bytes
    dims, named = kind.dims, bool(names([kind]))

    def scalar(value: object, _: Bindings) -> Item:
        if type(value) is wanted:
            return _encodable(value, kind) if isinstance(value, str) else value
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        return cast("Item", _text(value, wanted, kind))

    def tensor(value: object, bindings: Bindings) -> Item:
        array = _text_array(value, wanted, kind)
        wrong = bind(dims, array.shape, bindings if named else {})
        if wrong is not None:
            raise Mismatch(f"has shape {list(array.shape)}, expected {kind}: it {wrong}")
        return array

    return tensor if dims else scalar


def _text(value: object, wanted: type, kind: TensorType) -> object:
    if wanted is str and isinstance(value, str):
        return _encodable(value, kind)
    if wanted is bytes and isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast("bytes", value))
    cure = ""
    if wanted is bytes and isinstance(value, str):
        cure = "; encode it, or read the file that it names"
    if wanted is str and isinstance(value, bytes):
        cure = "; decode it: x.decode()"
    raise Mismatch(f"is {_described(value)}, expected {kind}{cure}")


def _encodable(text: str, kind: TensorType) -> str:
    """Return a text that UTF-8 has bytes for, as the wire and the libraries of models want it."""
    if text.isascii():
        return str(text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Mismatch(
            f"holds {text[error.start]!r}, half of a surrogate pair, which UTF-8 cannot hold, "
            f"expected {kind}; replace it: x.encode(errors='replace').decode()"
        ) from None
    return str(text)


def _text_array(value: object, wanted: type, kind: TensorType) -> Array:
    if isinstance(value, np.ndarray):
        array = _plain(cast("Array", value), kind)
        if array.dtype.kind not in "OUST":
            _same_dtype(array, kind, to_numpy(kind.dtype))
        array = array.astype(object)
    elif isinstance(value, list | tuple):
        array = np.array(cast("list[object]", value), object)
        if array.size == 0:
            array = array.reshape((0,) * len(kind.dims))
    else:
        raise Mismatch(f"is {_described(value)}, expected {kind}")
    flat = array.reshape(-1)
    for index, one in enumerate(flat.tolist()):
        if type(one) is not wanted or (wanted is str and not one.isascii()):
            flat[index] = _text(one, wanted, kind)
    return flat.reshape(array.shape)


def _list(kind: ListType) -> Convert:
    inner, maximum = converter(kind.item), kind.maximum

    def convert(value: object, bindings: Bindings) -> Item:
        if (isinstance(value, np.ndarray) and value.ndim == 0) or isinstance(value, str | bytes):
            raise Mismatch(f"is {_described(value)}, expected {kind}")
        if not isinstance(value, list | tuple | np.ndarray):
            raise Mismatch(f"is {_described(value)}, expected {kind}")
        values = list(cast("list[object]", value))
        if maximum is not None and len(values) > maximum:
            raise Mismatch(f"has {len(values)} items, expected {kind}")
        items: list[Item] = []
        for index, one in enumerate(values):
            try:
                items.append(inner(one, dict(bindings)))
            except Mismatch as error:
                raise Mismatch(f"[{index}] {error}") from None
        return items

    return convert


def _described(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        found = from_numpy(array.dtype)
        return f"{found.value if found else array.dtype}{list(array.shape)}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
