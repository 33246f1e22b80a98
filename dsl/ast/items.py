"""What stands at the top of a file: models, functions, pipelines, schedules, tests."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .expressions import Duration, Expr, Number, String
from .node import Ident, Node
from .statements import Binding, Block
from .types import DimExpr, TypeExpr


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
