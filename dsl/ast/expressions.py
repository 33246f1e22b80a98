"""Expressions: what has a value. Those with bodies hold blocks of statements."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from .node import Ident, Node
from .types import TypeExpr

if TYPE_CHECKING:
    from .statements import Block


@dataclass(frozen=True, slots=True)
class Name(Node):
    text: str


@dataclass(frozen=True, slots=True)
class Number(Node):
    """`text` keeps the spelling (`0.50`, `1e-3`, `0x1f`, `1_000`); `value` is what it means."""

    value: int | float
    text: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class String(Node):
    value: str


@dataclass(frozen=True, slots=True)
class Bool(Node):
    value: bool


@dataclass(frozen=True, slots=True)
class Duration(Node):
    """`150ms`, `2s`, `1us`, `1m`, `1h`"""

    seconds: float
    text: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Size(Node):
    """`64MiB`, `1GiB`, `4KiB`"""

    bytes: int
    text: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class ListLiteral(Node):
    items: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """`image.resize`, `turn.p`: what it means depends on what the left side is."""

    value: "Expr"
    name: Ident


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """`value` or `name = value`"""

    name: Ident | None
    value: "Expr"


@dataclass(frozen=True, slots=True)
class Call(Node):
    callee: "Expr"
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """`1:`, `:4`, `1:4`, `::2`"""

    start: "Expr | None"
    stop: "Expr | None"
    step: "Expr | None"


@dataclass(frozen=True, slots=True)
class Index(Node):
    value: "Expr"
    items: tuple["Expr | Slice", ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    op: Literal["-", "not"]
    operand: "Expr"


BinaryOp: TypeAlias = Literal[
    "+", "-", "*", "/", "%", "@", "==", "!=", "<", "<=", ">", ">=", "and", "or"
]


@dataclass(frozen=True, slots=True)
class Binary(Node):
    op: BinaryOp
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True)
class If(Node):
    """A missing `else` (`orelse` None) parses; the checker says that a value needs it."""

    condition: "Expr"
    then: "Block"
    orelse: "Block | If | None"


@dataclass(frozen=True, slots=True)
class Wildcard(Node):
    """`_` as a pattern or as a target that drops its value."""


@dataclass(frozen=True, slots=True)
class Arm(Node):
    """`"en" => english(t)`; several patterns are joined by `|`."""

    patterns: tuple["Number | String | Bool | Wildcard", ...]
    body: "Block | Expr"


@dataclass(frozen=True, slots=True)
class Match(Node):
    subject: "Expr"
    arms: tuple[Arm, ...]


@dataclass(frozen=True, slots=True)
class For(Node):
    """`for x in xs { ... }`; `for a, b in zip(xs, ys) { ... }` walks several side by side."""

    targets: tuple["Ident | Wildcard", ...]
    iterable: "Expr"
    body: "Block"


@dataclass(frozen=True, slots=True)
class Carried(Node):
    """`ids: i64[_] = start`"""

    name: Ident
    type: TypeExpr
    init: "Expr"


@dataclass(frozen=True, slots=True)
class Loop(Node):
    carried: tuple[Carried, ...]
    maximum: "Expr"
    body: "Block"


@dataclass(frozen=True, slots=True)
class Try(Node):
    """`try big(x) within 20ms else small(x)`"""

    body: "Expr | Block"
    within: "Expr | None"
    orelse: "Expr | Block"


Expr: TypeAlias = (
    Name
    | Number
    | String
    | Bool
    | Duration
    | Size
    | ListLiteral
    | Attribute
    | Call
    | Index
    | Unary
    | Binary
    | If
    | Match
    | For
    | Loop
    | Try
)
