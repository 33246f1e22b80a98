"""The syntax tree: what was written, before names and types are resolved.

Every node is a frozen dataclass with a `span` that does not take part in equality, so that
`parse(format(x)) == parse(x)` compares programs and not layouts.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ident(Node):
    """A name at the place where it is written."""

    text: str


# ---- dimensions and types


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


# ---- expressions


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


# ---- statements


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


# ---- items


@dataclass(frozen=True, slots=True)
class Param(Node):
    """A parameter or result: `min_score: f32 = 0.5`, or `"input:0" as x: f32`, where callers of a
    pipeline and the file of a model have another name for it than the language could write."""

    name: Ident
    type: TypeExpr
    default: Expr | None = None
    called: String | None = None

    @property
    def outside(self) -> str:
        """What callers, or the model's file, call it."""
        return self.name.text if self.called is None else self.called.value


@dataclass(frozen=True, slots=True)
class UseModule(Node):
    """`use image`"""

    name: Ident
    alias: Ident | None = None


@dataclass(frozen=True, slots=True)
class UseFile(Node):
    """`use "common.pipe" as common`"""

    path: String
    alias: Ident


@dataclass(frozen=True, slots=True)
class TypeDef(Node):
    name: Ident
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class Const(Node):
    """`const charset: string[K] = lines("keys.txt")`, or a literal."""

    name: Ident
    type: TypeExpr
    value: Expr


@dataclass(frozen=True, slots=True)
class BatchAxis(Node):
    """`batch none` has no axes; `batch axis { x = 0, h = 1 }` has them."""

    axes: tuple[tuple[Ident, int], ...] | None


@dataclass(frozen=True, slots=True)
class Pads(Node):
    """`pads L with (ids = 0, mask = 0)`"""

    dim: Ident
    fill: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class Constraint(Node):
    """`H % 32 == 0`"""

    op: Literal["==", "!=", "<", "<=", ">", ">="]
    left: DimExpr
    right: DimExpr


@dataclass(frozen=True, slots=True)
class Model(Node):
    """`params` and `results` are None when the signature is to be read from the file."""

    name: Ident
    backend: Ident
    location: String
    params: tuple[Param, ...] | None = None
    results: tuple[Param, ...] | None = None
    where: tuple[Constraint, ...] = ()
    batch: BatchAxis | None = None
    pads: tuple[Pads, ...] = ()


@dataclass(frozen=True, slots=True)
class External(Node):
    """`python "ocr.py:quads" batched pure`, `native "lib.so:symbol"`"""

    kind: Literal["python", "native"]
    location: String
    batched: bool = False
    pure: bool = False


@dataclass(frozen=True, slots=True)
class Fn(Node):
    name: Ident
    params: tuple[Param, ...]
    results: tuple[Param, ...]
    body: External | Block


@dataclass(frozen=True, slots=True)
class Pipeline(Node):
    name: Ident
    params: tuple[Param, ...]
    results: tuple[Param, ...]
    body: Block
    stream: bool = False
    batch: Number | None = None
    deadline: Duration | None = None
    sequence: bool = False
    idle: Duration | None = None
    called: String | None = None  # `pipeline "a.b" as a_b(...)`: the name that it is served by


@dataclass(frozen=True, slots=True)
class Setting(Node):
    """`max = 32`, `batch { ... }`, `read { ... }`, `instances = [gpu(0), 2 * cpu]`.

    Exactly one of `value` and `settings` is set. A key may be dotted (`common.read`).
    """

    key: Ident
    value: Expr | None = None
    settings: tuple["Setting", ...] | None = None


@dataclass(frozen=True, slots=True)
class Schedule(Node):
    pipeline: Ident
    target: String | None
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Stub(Node):
    """`stub angle = (p = [0.02, 0.98])`"""

    stage: Ident
    fields: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class Given(Node):
    """`given photo = file("fixtures/exit_flipped.png")`"""

    name: Ident
    value: Expr


@dataclass(frozen=True, slots=True)
class Expect(Node):
    """`expect text == ["EXIT"]`: `calls(stage)` counts how often a stage ran."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Test(Node):
    title: String
    pipeline: Ident
    steps: tuple[Stub | Given | Expect, ...]


Item: TypeAlias = UseModule | UseFile | TypeDef | Const | Model | Fn | Pipeline | Schedule | Test


@dataclass(frozen=True, slots=True)
class Comment(Node):
    """`text` starts with `#`; where it goes in the canonical form follows from its span."""

    text: str


@dataclass(frozen=True, slots=True)
class Module(Node):
    items: tuple[Item, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False)
