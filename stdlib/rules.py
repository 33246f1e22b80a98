"""Parts of shape rules: what an argument must be, and which dimensions follow."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from ..dsl.dims import Dims
from ..dsl.types import ANY_DIM, Dim, DType, ListType, TensorType, Type
from .constants import constant_integers, integer_literal
from .dtypes import DEFAULT_FLOAT, DEFAULT_INTEGER, integer_range
from .op import Argument, Literal, OpTypeError
from .values import literal_array


def tensor(argument: Argument, name: str, dims: Dims) -> TensorType:
    """Return the type of a tensor; a list of tensors counts as one with a leading axis."""
    match argument.type:
        case TensorType() as found:
            return found
        case ListType(item=TensorType(dtype, inner)):
            known = argument.known and isinstance(argument.literal, tuple)
            length = (
                len(cast("tuple[Literal, ...]", argument.literal)) if known else dims.fresh("n")
            )
            return TensorType(dtype, (length, *inner))
        case other:
            raise OpTypeError(name, f"a tensor, not {other}")


def number(argument: Argument, name: str, dims: Dims) -> TensorType:
    """Return the type of a tensor of numbers."""
    found = tensor(argument, name, dims)
    if not found.dtype.is_number:
        raise OpTypeError(name, f"numbers, not {found}", help=_cast_help(name, found, "i64"))
    return found


def floating(argument: Argument, name: str, dims: Dims) -> TensorType:
    """Return the type of a tensor of floating-point numbers; integer literals count."""
    found = number(argument, name, dims)
    if is_number_literal(argument) and not found.dtype.is_float:
        return TensorType(DEFAULT_FLOAT, found.dims)
    if not found.dtype.is_float:
        help = f"make it floating point first: `cast({name}, f32)`"
        raise OpTypeError(name, f"floating-point numbers, not {found}", help)
    return found


def of_dtype(argument: Argument, name: str, dims: Dims, *dtypes: DType) -> TensorType:
    """Return the type of a tensor whose dtype is one of `dtypes`."""
    found = tensor(argument, name, dims)
    if found.dtype not in dtypes:
        wanted = " or ".join(dtype.value for dtype in dtypes)
        raise OpTypeError(name, f"{wanted}, not {found}", _cast_help(name, found, dtypes[0].value))
    return found


def ranked(found: TensorType, name: str, *ranks: int, form: str | None = None) -> TensorType:
    """Require a number of axes; `form` shows what is wanted (`[h, w, c]`)."""
    if len(found.dims) not in ranks:
        wanted = form or f"a tensor of {' or '.join(map(str, ranks))} axes"
        raise OpTypeError(name, f"{wanted}, not {found}")
    return found


def scalar_integer(argument: Argument, name: str, dims: Dims) -> int | None:
    """Require a scalar integer and return it if it is known."""
    found = tensor(argument, name, dims)
    if found.dims or not found.dtype.is_integer:
        raise OpTypeError(name, f"an integer, not {found}")
    return integer_literal(argument.literal, name) if argument.known else None


def scalar_text(argument: Argument, name: str, dims: Dims) -> None:
    """Require one string."""
    found = tensor(argument, name, dims)
    if found.dims or found.dtype is not DType.STRING:
        raise OpTypeError(name, f"a string, not {found}")


def sizes(argument: Argument, name: str, dims: Dims) -> tuple[Dim, ...]:
    """Return dimensions from a literal integer or list of them, fresh ones for run-time values.

    A run-time list must have a known length, which is the number of dimensions.
    """
    if argument.known:
        return constant_integers(argument, name)
    found = tensor(argument, name, dims)
    if not found.dtype.is_integer or len(found.dims) > 1:
        raise OpTypeError(name, f"integers, not {found}")
    if not found.dims:
        return (dims.fresh("n"),)
    rank = dims.resolve(found.dims[0])
    if not isinstance(rank, int):
        raise OpTypeError(name, f"a known number of sizes, not {found}")
    return tuple(dims.fresh("n") for _ in range(rank))


def size_or_fresh(argument: Argument, name: str, fresh: str, dims: Dims) -> Dim:
    """Return a literal size, which must be at least 1, or a fresh dimension."""
    known = scalar_integer(argument, name, dims)
    if known is not None and known < 1:
        raise OpTypeError(name, f"a size of at least 1, not {known}")
    return dims.fresh(fresh) if known is None else known


def is_number_literal(argument: Argument) -> bool:
    """Return whether an argument is a Python number (or tuple of them) that has no dtype yet."""
    return argument.known and _is_weak(argument.literal)


def common_dtype(arguments: Sequence[Argument], names: Sequence[str], dims: Dims) -> DType:
    """Return the one dtype of several operands; number literals take that of the others."""
    found = [tensor(one, name, dims) for one, name in zip(arguments, names, strict=True)]
    strong = [i for i, one in enumerate(arguments) if not is_number_literal(one)]
    if not strong:
        numbers = [_leaf_float(one.literal) for one in arguments]
        return DEFAULT_FLOAT if any(numbers) else DEFAULT_INTEGER
    first = strong[0]
    dtype = found[first].dtype
    for i in strong[1:]:
        if found[i].dtype is not dtype:
            raise OpTypeError(
                names[i],
                f"{dtype.value} like `{names[first]}`, not {found[i]}: "
                "dtypes are never converted implicitly",
                help=f"convert one of them: `cast({names[i]}, {dtype.value})`",
            )
    for i, one in enumerate(arguments):
        if i not in strong:
            _fits(one.literal, dtype, names[i])
    return dtype


def broadcast(shapes: Sequence[TensorType], names: Sequence[str], dims: Dims) -> tuple[Dim, ...]:
    """Return the dimensions that NumPy broadcasting gives."""
    result: tuple[Dim, ...] = shapes[0].dims
    for shape, name in zip(shapes[1:], names[1:], strict=True):
        rank = max(len(result), len(shape.dims))
        left = (1,) * (rank - len(result)) + result
        right = (1,) * (rank - len(shape.dims)) + shape.dims
        joined: list[Dim] = []
        for one, other in zip(left, right, strict=True):
            dim = dims.broadcast(one, other)
            if dim is None:
                raise OpTypeError(
                    name,
                    f"of a shape that broadcasts with {shapes[0]}, not {shape}: "
                    f"{dims.resolve(one)} and {dims.resolve(other)} differ and neither is 1",
                )
            joined.append(dim)
        result = tuple(joined)
    return result


def same_size(left: Dim, right: Dim, name: str, what: str, dims: Dims) -> None:
    """Require two dimensions to be equal; `what` says which ones in the message."""
    if not dims.unify(left, right):
        raise OpTypeError(name, f"{what}: {dims.resolve(left)} and {dims.resolve(right)} differ")


def common_item(left: Type, right: Type, name: str) -> Type:
    """Return the type of items of both types, with `_` where their shapes may differ."""
    if left == right:
        return left
    if (
        isinstance(left, TensorType)
        and isinstance(right, TensorType)
        and left.dtype is right.dtype
        and len(left.dims) == len(right.dims)
    ):
        pairs = zip(left.dims, right.dims, strict=True)
        joined = (one if one == other else ANY_DIM for one, other in pairs)
        return TensorType(left.dtype, tuple(joined))
    raise OpTypeError(name, f"items of one type, not {left} and {right}")


def scalar(dtype: DType) -> tuple[Type, ...]:
    """Return the result types of an op that gives one scalar."""
    return (TensorType(dtype),)


def _is_weak(literal: Literal) -> bool:
    if isinstance(literal, tuple):
        return bool(literal) and all(_is_weak(one) for one in literal)
    return type(literal) in (int, float)


def _leaf_float(literal: Literal) -> bool:
    if isinstance(literal, tuple):
        return any(_leaf_float(one) for one in literal)
    return isinstance(literal, float)


def _fits(literal: Literal, dtype: DType, name: str) -> None:
    """Require a number literal to be a value of `dtype`."""
    if not dtype.is_number:
        raise OpTypeError(name, f"{dtype.value}, not the number {literal!r}")
    if dtype.is_float:
        return
    leaves = literal_array(literal, DType.F64) if isinstance(literal, tuple) else literal
    if _leaf_float(literal):
        help = f"convert the other side: `cast(..., {DEFAULT_FLOAT.value})`"
        raise OpTypeError(name, f"an integer ({dtype.value}), not {literal!r}", help)
    low, high = integer_range(dtype)
    if not bool(np.all((np.asarray(leaves) >= low) & (np.asarray(leaves) <= high))):
        raise OpTypeError(name, f"a value of {dtype.value} ({low} to {high}), not {literal!r}")


def _cast_help(name: str, found: TensorType, dtype: str) -> str | None:
    if found.dtype in (DType.STRING, DType.BYTES):
        return None
    return f"convert it: `cast({name}, {dtype})`"
