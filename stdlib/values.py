"""Run-time values as NumPy arrays: what reference implementations start from."""

from typing import Any, cast

import numpy as np

from ..dsl.types import DType
from .dtypes import DEFAULT_FLOAT, DEFAULT_INTEGER, to_numpy
from .op import Array, Item, Literal


def array(value: "Item | Literal") -> Array:
    """Return a value as an array: lists are stacked, literals take their default dtype.

    Raises ValueError when the items of a list differ in shape, naming the item and both shapes.
    """
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, str | bytes):
        return _object(value)
    if isinstance(value, bool):
        return np.asarray(value)
    if isinstance(value, int):
        return np.asarray(value, to_numpy(DEFAULT_INTEGER))
    if isinstance(value, float):
        return np.asarray(value, to_numpy(DEFAULT_FLOAT))
    if isinstance(value, list):
        return stacked([array(item) for item in value])
    if isinstance(value, tuple):
        return literal_array(value)
    raise TypeError(f"{value!r} is not a tensor")


def stacked(items: list[Array]) -> Array:
    """Stack arrays of one shape along a new first axis."""
    if not items:
        raise ValueError("an empty list has no shape of its own and cannot become a tensor")
    for index, item in enumerate(items):
        if item.shape != items[0].shape:
            raise ValueError(
                f"item {index} of the list has shape {list(item.shape)}, but item 0 has "
                f"{list(items[0].shape)}: items of different shapes cannot become a tensor"
            )
    return np.stack(items)


def literal_array(value: "tuple[Literal, ...]", dtype: DType | None = None) -> Array:
    """Return a tuple of numbers, bools or strings (nested for more axes) as an array."""
    leaves = list(_leaves(value))
    if dtype is None:
        if any(isinstance(leaf, str | bytes) for leaf in leaves):
            dtype = DType.STRING
        elif leaves and all(isinstance(leaf, bool | np.bool_) for leaf in leaves):
            dtype = DType.BOOL
        elif any(isinstance(leaf, float | np.floating) for leaf in leaves):
            dtype = DEFAULT_FLOAT
        else:
            dtype = DEFAULT_INTEGER
    return np.array(value, to_numpy(dtype))


_ARRAYS = (np.ndarray, np.generic)  # a union is made anew wherever it is written


def same_dtype(*values: "Item | Literal") -> tuple[Array, ...]:
    """Return operands as arrays of one dtype: literals take that of the first that has one."""
    for value in values:
        if isinstance(value, _ARRAYS):
            dtype = value.dtype
            break
    else:
        arrays = tuple(array(value) for value in values)
        number = next((a.dtype for a in arrays if a.dtype.kind == "f"), arrays[0].dtype)
        return tuple(_of_dtype(one, number) for one in arrays)
    return tuple([np.asarray(v) if isinstance(v, _ARRAYS) else _of_dtype(v, dtype) for v in values])


def integers(value: "Item | Literal") -> tuple[int, ...]:
    """Return a literal or run-time integer, or row of integers, as Python ones."""
    return tuple(int(one) for one in np.asarray(array(value)).reshape(-1))


def integer(value: "Item | Literal") -> int:
    """Return a literal or run-time scalar integer as a Python one."""
    return int(cast("Any", value))  # Any: a union that the type rule has narrowed to integers


def scalar_or_array(value: "Array | str | bytes") -> "Item":
    """Return a 0-d object array as the str or bytes it holds, anything else unchanged."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject and value.ndim == 0:
        return cast("str | bytes", value.item())  # object arrays hold only these two
    return value


def _of_dtype(value: "Item | Literal", dtype: "np.dtype[Any]") -> Array:  # Any: of any scalar
    if dtype.hasobject or isinstance(value, list):
        return array(value)
    if isinstance(value, int) and dtype.kind == "u" and value < 0:
        raise OverflowError(f"{value} does not fit {dtype}")
    return np.asarray(value, dtype)


def _object(value: str | bytes) -> Array:
    result = np.empty((), object)
    result[()] = value
    return result


def _leaves(value: "Literal") -> "list[Literal]":
    if not isinstance(value, tuple):
        return [value]
    return [leaf for one in value for leaf in _leaves(one)]
