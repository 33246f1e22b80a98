"""Statements, and the blocks that they make."""

from dataclasses import dataclass
from typing import TypeAlias

from .expressions import Expr, Wildcard
from .node import Ident, Node
from .types import TypeExpr


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`a = f(x)`, `page, _ = fit(x)`"""

    targets: tuple[Ident | Wildcard, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Binding(Node):
    """`text = t` in yield, return, emit, next; the name is None in `return x`."""

    name: Ident | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Yield(Node):
    fields: tuple[Binding, ...]
    when: Expr | None = None


@dataclass(frozen=True, slots=True)
class Return(Node):
    fields: tuple[Binding, ...]
    when: Expr | None = None


@dataclass(frozen=True, slots=True)
class Emit(Node):
    fields: tuple[Binding, ...]
    when: Expr | None = None


@dataclass(frozen=True, slots=True)
class Next(Node):
    fields: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class StopWhen(Node):
    condition: Expr


@dataclass(frozen=True, slots=True)
class State(Node):
    """`state h: f32[2, 128] = zeros`"""

    name: Ident
    type: TypeExpr
    init: Expr


@dataclass(frozen=True, slots=True)
class Result(Node):
    """A bare expression as the last statement: the value of its block."""

    value: Expr


Statement: TypeAlias = Assign | Yield | Return | Emit | Next | StopWhen | State | Result


@dataclass(frozen=True, slots=True)
class Block(Node):
    statements: tuple[Statement, ...]
