"""What a literal argument must be: an integer, an axis, a dtype, one of some words."""

from collections.abc import Sequence

import numpy as np

from ..dsl.types import DType, TensorType
from .op import Argument, Literal, OpTypeError


def constant_integer(argument: Argument, name: str) -> int:
    """Return a literal integer."""
    return integer_literal(argument.literal, name)


def constant_integers(argument: Argument, name: str) -> tuple[int, ...]:
    """Return a literal integer, or a row of them, as a tuple."""
    if isinstance(argument.literal, tuple | np.ndarray):
        return tuple(integer_literal(one, name) for one in argument.literal)
    return (integer_literal(argument.literal, name),)


def constant_choice(argument: Argument, name: str, choices: Sequence[str]) -> str:
    """Return a literal string that is one of `choices`."""
    if argument.literal not in choices or not isinstance(argument.literal, str):
        allowed = ", ".join(f'"{choice}"' for choice in choices)
        raise OpTypeError(name, f"one of {allowed}, not {argument.literal!r}")
    return argument.literal


def constant_bool(argument: Argument, name: str) -> bool:
    """Return a literal bool."""
    literal = argument.literal
    if isinstance(literal, np.ndarray) and literal.dtype == np.bool_ and literal.ndim == 0:
        return bool(literal)
    if not isinstance(literal, bool):
        raise OpTypeError(name, f"true or false, not {literal!r}")
    return literal


def constant_dtype(argument: Argument, name: str) -> DType:
    """Return a literal dtype."""
    if not isinstance(argument.literal, DType):
        raise OpTypeError(name, f"a dtype such as f32, not {argument.literal!r}")
    return argument.literal


def axis(argument: Argument, name: str, found: TensorType) -> int:
    """Return a literal axis of `found`, counted from the front."""
    return _axis(constant_integer(argument, name), name, len(found.dims), str(found))


def axes(argument: Argument, name: str, found: TensorType) -> tuple[int, ...]:
    """Return literal axes of `found` in ascending order; all of them for None."""
    rank = len(found.dims)
    if argument.literal is None:
        return tuple(range(rank))
    listed = [_axis(one, name, rank, str(found)) for one in constant_integers(argument, name)]
    if len(set(listed)) != len(listed):
        raise OpTypeError(name, f"different axes, not {listed}")
    return tuple(sorted(listed))


def integer_literal(literal: Literal, name: str) -> int:
    """Return a literal as an integer."""
    if isinstance(literal, bool | np.bool_) or not isinstance(literal, int | np.integer):
        if isinstance(literal, np.ndarray) and literal.ndim == 0 and literal.dtype.kind in "iu":
            return int(literal)
        raise OpTypeError(name, f"an integer, not {literal!r}")
    return int(literal)


def _axis(value: int, name: str, rank: int, shown: str) -> int:
    if not -rank <= value < rank:
        if not rank:
            raise OpTypeError(name, f"left out, because {shown} has no axes")
        raise OpTypeError(name, f"an axis of {shown} ({-rank} to {rank - 1}), not {value}")
    return value % rank
