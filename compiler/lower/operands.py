"""What an expression stands for while it is checked: a literal, a value, or a record of those.

A literal becomes a `Constant` only where it is used, because a number takes its dtype from there.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ...dsl.types import UNKNOWN, DType, OptionalType, TensorType, Type
from ...stdlib.dtypes import DEFAULT_FLOAT, DEFAULT_INTEGER, integer_range
from ...stdlib.op import Literal
from ..graph import Value

TEXT = TensorType(DType.STRING)
NOTHING = OptionalType(TEXT)  # the type of an argument that says "none"


@dataclass(frozen=True, slots=True)
class Known:
    """A value known when compiling. Numbers that are `weak` take the dtype of the other side."""

    literal: Literal
    type: Type
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """A value that a stage makes, or a parameter of the pipeline."""

    value: Value

    @property
    def type(self) -> Type:
        return self.value.type


@dataclass(frozen=True, slots=True)
class Broken:
    """What a mistake has made unknown; agrees with everything and causes no second mistake."""

    @property
    def type(self) -> Type:
        return UNKNOWN


BROKEN = Broken()
Single: TypeAlias = Known | Made | Broken


@dataclass(frozen=True, slots=True)
class Record:
    """Several named results. One with a single field stands for that field."""

    fields: tuple[tuple[str, Single], ...]

    def find(self, name: str) -> Single | None:
        return next((single for field, single in self.fields if field == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)


Operand: TypeAlias = Single | Record


def weak_number(number: int | float) -> Known:
    """Return a number literal that has no dtype of its own yet.

    An integer that is too large for the default is one of 64 bits without a sign.
    """
    dtype = DEFAULT_FLOAT if isinstance(number, float) else DEFAULT_INTEGER
    if isinstance(number, int) and number > integer_range(DEFAULT_INTEGER)[1]:
        dtype = DType.U64
    return Known(number, TensorType(dtype), weak=True)


def collapsed(operand: Operand) -> Operand:
    """Return the field of a record that has only one."""
    if isinstance(operand, Record) and len(operand.fields) == 1:
        return operand.fields[0][1]
    return operand


def singles(operand: Operand) -> tuple[Single, ...]:
    """Return the values an operand holds, in order."""
    if isinstance(operand, Record):
        return tuple(single for _, single in operand.fields)
    return (operand,)
