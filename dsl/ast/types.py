"""Dimensions and types, as written."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .node import Node


@dataclass(frozen=True, slots=True)
class DimInt(Node):
    value: int


@dataclass(frozen=True, slots=True)
class DimName(Node):
    name: str


@dataclass(frozen=True, slots=True)
class DimUnknown(Node):
    """`_`"""


@dataclass(frozen=True, slots=True)
class DimBinary(Node):
    op: Literal["+", "-", "*", "/", "%"]
    left: "DimExpr"
    right: "DimExpr"


DimExpr: TypeAlias = DimInt | DimName | DimUnknown | DimBinary


@dataclass(frozen=True, slots=True)
class TensorTypeExpr(Node):
    """`f32`, `f32[3, H]`, or a name given by `type` (`Quad`, `common.Quad`): told apart later."""

    name: str
    dims: tuple[DimExpr, ...] | None = None  # None: no brackets


@dataclass(frozen=True, slots=True)
class ListTypeExpr(Node):
    item: "TypeExpr"
    maximum: DimExpr | None = None


@dataclass(frozen=True, slots=True)
class OptionalTypeExpr(Node):
    item: "TypeExpr"


TypeExpr: TypeAlias = TensorTypeExpr | ListTypeExpr | OptionalTypeExpr
