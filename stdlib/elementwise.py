"""How ops that treat each element alone are put together: broadcasting, dtypes, references."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..dsl.dims import Dims
from ..dsl.types import DType, TensorType, Type
from .op import Argument, Item, Literal, OpTypeError, Reference, TypeRule
from .rules import broadcast, common_dtype, tensor
from .values import same_dtype

# Any: NumPy's ufuncs are overloaded on the dtypes of their operands.
Function: TypeAlias = Callable[..., Any]


def is_number(dtype: DType) -> bool:
    """Return whether a dtype is arithmetic's."""
    return dtype.is_number


def is_float(dtype: DType) -> bool:
    """Return whether a dtype is one of real functions."""
    return dtype.is_float


def is_bool(dtype: DType) -> bool:
    """Return whether a dtype is logic's."""
    return dtype is DType.BOOL


def same_type(
    names: Sequence[str],
    accepts: Callable[[DType], bool],
    wants: str,
    result: DType | None = None,
) -> TypeRule:
    """Make the rule of operands that share a dtype and broadcast; `result` replaces the dtype."""

    def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
        dtype = common_dtype(arguments, names, dims)
        if accepts is is_float and dtype.is_integer and _all_literals(arguments):
            dtype = DType.F32
        found = [tensor(one, name, dims) for one, name in zip(arguments, names, strict=True)]
        if not accepts(dtype):
            raise OpTypeError(names[0], f"{wants}, not {found[0]}")
        return (TensorType(result or dtype, broadcast(found, names, dims)),)

    return types


def function(apply: Function) -> Reference:
    """Make a reference that brings its operands to one dtype and calls a NumPy function."""

    def reference(*values: "Item | Literal") -> "Item":
        with np.errstate(all="ignore"):
            return apply(*same_dtype(*values))

    return reference


def float_function(apply: Function) -> Reference:
    """Make a reference of a real function: integer literals become f32."""

    def reference(*values: "Item | Literal") -> "Item":
        operands = same_dtype(*values)
        if operands[0].dtype.kind in "iu":
            operands = tuple(one.astype(np.float32) for one in operands)
        with np.errstate(all="ignore"):
            return apply(*operands)

    return reference


def _all_literals(arguments: Sequence[Argument]) -> bool:
    return all(argument.known for argument in arguments)
