"""The types of values: scalars, tensors with named dimensions, lists, optionals.

A dimension is an integer, a variable, arithmetic on those, or `_`. Equality of dimensions is
decided on their simplified form (`dims.py`); here are only the values and how they are shown.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias


class DType(Enum):
    """A scalar type, by its name in the language."""

    BOOL = "bool"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    STRING = "string"
    BYTES = "bytes"

    @property
    def is_float(self) -> bool:
        return self in (DType.F16, DType.BF16, DType.F32, DType.F64)

    @property
    def is_integer(self) -> bool:
        return self.value[0] in "iu"

    @property
    def is_number(self) -> bool:
        return self.is_float or self.is_integer


@dataclass(frozen=True, slots=True)
class DimVar:
    """A named dimension. `uid` tells apart equal names of different signatures or calls."""

    name: str
    uid: int = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DimAny:
    """`_`: unknown, matches anything."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class DimArith:
    """Arithmetic on dimensions, as written: `H / 4`, `2 * T + 1`; `/` rounds down."""

    op: Literal["+", "-", "*", "/", "%"]
    left: "Dim"
    right: "Dim"

    def __str__(self) -> str:
        binds = self.op in "*/%"
        left = isinstance(self.left, DimArith) and binds and self.left.op in "+-"
        right = isinstance(self.right, DimArith) and (binds or self.right.op in "+-")
        one = f"({self.left})" if left else str(self.left)
        other = f"({self.right})" if right else str(self.right)
        return f"{one} {self.op} {other}"


Dim: TypeAlias = int | DimVar | DimAny | DimArith
ANY_DIM = DimAny()


@dataclass(frozen=True, slots=True)
class TensorType:
    """A scalar (`dims` empty) or a tensor of one dtype."""

    dtype: DType
    dims: tuple[Dim, ...] = ()

    def __str__(self) -> str:
        return self.dtype.value + (f"[{', '.join(map(str, self.dims))}]" if self.dims else "")


@dataclass(frozen=True, slots=True)
class ListType:
    """Items of one type whose shapes may differ; at most `maximum` of them when that is known."""

    item: "Type"
    maximum: int | None = None

    def __str__(self) -> str:
        return f"list<{self.item}{f', {self.maximum}' if self.maximum is not None else ''}>"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value that may be absent (`None` at run time)."""

    item: "Type"

    def __str__(self) -> str:
        return f"{self.item}?"


@dataclass(frozen=True, slots=True)
class UnknownType:
    """The type of a broken expression: agrees with everything, causes no second error."""

    def __str__(self) -> str:
        return "?"


Type: TypeAlias = TensorType | ListType | OptionalType | UnknownType
UNKNOWN = UnknownType()


@dataclass(frozen=True, slots=True)
class Field:
    """A named and typed parameter or result."""

    name: str
    type: Type

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a model, function, op or pipeline takes and gives, for one item."""

    params: tuple[Field, ...]
    results: tuple[Field, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.params))}) -> ({', '.join(map(str, self.results))})"
