"""What the names of a file stand for once its items have been read."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal as OneOf
from typing import TypeAlias

from ...dsl import ast
from ...dsl.source import Source, Span
from ...dsl.types import Dim, Signature, Type
from ...stdlib.catalog import Family
from ...stdlib.op import Literal
from ..graph import Check, FunctionDef, Graph, ModelDef
from .operands import Known


@dataclass(frozen=True, slots=True)
class Constraint:
    """`H % 32 == 0`, over the names of the signature that it belongs to."""

    left: Dim
    op: str
    right: Dim
    text: str
    span: Span

    @property
    def check(self) -> Check:
        return Check(self.left, self.op, self.right, self.text)


@dataclass(frozen=True, slots=True)
class UsedFamily:
    """`use image`: the ops of a family."""

    family: Family


@dataclass(frozen=True, slots=True)
class NamedType:
    """`type Quad = f32[4, 2]`"""

    type: Type


@dataclass(frozen=True, slots=True)
class NamedConstant:
    """A `const`. `known` is None when a check does without the file that holds it."""

    type: Type
    known: Known | None


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model; `defaults` holds one entry for each parameter."""

    definition: ModelDef
    where: tuple[Constraint, ...]
    defaults: tuple[Known | None, ...]


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """A Python function; `defaults` holds one entry for each parameter."""

    definition: FunctionDef
    defaults: tuple[Known | None, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """`state h: f32[2, 128] = zeros`: the value it has at first, and where it is written."""

    name: str
    type: Type
    initial: Literal
    span: Span


class State(Enum):
    """How far the body of a routine has been checked."""

    UNCHECKED = "unchecked"
    CHECKING = "checking"
    SOUND = "sound"
    BROKEN = "broken"


@dataclass(slots=True, eq=False)
class Routine:
    """A pipeline or a function written in the language: its body is inlined where it is called.

    `graph` is that of its own body, set once a pipeline has been checked without mistakes.
    `states` outlive a request, for `idle` seconds after it; None: it is not per sequence.
    """

    name: str
    kind: OneOf["pipeline", "function"]
    params: tuple[ast.Param, ...]
    body: ast.Block
    signature: Signature
    defaults: tuple[Known | None, ...]
    file: "File"
    span: Span
    declaration: ast.Fn | ast.Pipeline
    states: tuple[Declared, ...] = ()
    idle: float | None = None
    state: State = State.UNCHECKED
    graph: Graph | None = None

    @property
    def stream(self) -> bool:
        """Whether its results are what it emits."""
        return isinstance(self.declaration, ast.Pipeline) and self.declaration.stream


@dataclass(frozen=True, slots=True)
class Mistaken:
    """An item whose declaration is wrong: using it is no second mistake."""


@dataclass(slots=True, eq=False)
class File:
    """A source file: its items by name. `prefix` is how the main file reaches them (`common.`)."""

    source: Source
    module: ast.Module
    prefix: str = ""
    entities: dict[str, "Entity"] = field(default_factory=dict[str, "Entity"])
    places: dict[str, Span] = field(default_factory=dict[str, Span])
    used: set[str] = field(default_factory=set[str])

    def find(self, name: str) -> "Entity | None":
        """Return the item of that name and remember that it is used."""
        self.used.add(name)
        return self.entities.get(name)


@dataclass(frozen=True, slots=True)
class UsedFile:
    """`use "common.pipe" as common`"""

    file: File


Entity: TypeAlias = (
    UsedFamily
    | UsedFile
    | NamedType
    | NamedConstant
    | NamedModel
    | NamedFunction
    | Routine
    | Mistaken
)


def describe(entity: Entity) -> str:
    """Name the kind of an item, with its article."""
    match entity:
        case UsedFamily():
            return "a module"
        case UsedFile():
            return "a file"
        case NamedType():
            return "a type"
        case NamedConstant():
            return "a constant"
        case NamedModel():
            return "a model"
        case NamedFunction():
            return "a function"
        case Routine(kind=kind):
            return f"a {kind}"
        case Mistaken():
            return "an item"
