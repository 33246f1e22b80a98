"""Where an expression is lowered: the names in scope, the region that takes the nodes, the sizes.

`Body.evaluate` and `Body.perform` are how the parts that check calls, operators and control flow
come back to expressions; they are set where all of them are known (`expressions.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ...dsl import ast
from ...dsl.dims import Assumption, Dims
from ...dsl.source import Span
from ...dsl.types import ANY_DIM, UNKNOWN, Dim, ListType, OptionalType, TensorType, Type
from ...stdlib.catalog import Catalog
from ..dimensions import map_dims
from ..graph import Check, Constant, FunctionDef, Kind, ModelDef, Node, Region, Value
from .entities import File, Routine
from .literals import LiteralError, solid, typed
from .operands import BROKEN, Broken, Known, Made, Operand, Record, Single
from .problems import Problems
from .scope import Scope

Evaluate: TypeAlias = Callable[["Body", ast.Expr, tuple[str, ...]], Operand]
Perform: TypeAlias = Callable[["Body", ast.Expr], None]
Inline: TypeAlias = Callable[["Body", Routine, tuple[Single, ...], Span], Operand]
Send: TypeAlias = Callable[["Body", ast.Emit], None]


@dataclass(slots=True, eq=False)
class Whole:
    """What all bodies of one graph share: its sizes, the models and functions it calls, the batch
    axes of what models make, how many nodes it has so far, and what is read of a request's
    sequence (None: it has none)."""

    dims: Dims = field(default_factory=Dims)
    models: dict[str, ModelDef] = field(default_factory=dict[str, ModelDef])
    functions: dict[str, FunctionDef] = field(default_factory=dict[str, FunctionDef])
    batch_axes: dict[Value, int] = field(default_factory=dict[Value, int])
    nodes: int = 0
    controls: dict[str, Value] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A place in a graph under construction. `nodes` are those of the innermost region."""

    problems: Problems
    catalog: Catalog
    whole: Whole
    scope: Scope
    nodes: list[Node]
    evaluate_with: Evaluate
    perform_with: Perform
    inline_with: Inline
    emit_with: Send  # lowers an `emit`, or says why there can be none here

    @property
    def dims(self) -> Dims:
        return self.whole.dims

    @property
    def file(self) -> File:
        return self.scope.file

    def evaluate(self, expr: ast.Expr, names: tuple[str, ...] = ()) -> Operand:
        """Lower an expression; `names` are what the source calls its results."""
        return self.evaluate_with(self, expr, names)

    def perform(self, expr: ast.Expr) -> None:
        """Lower an expression for what it emits; nothing takes its value."""
        self.perform_with(self, expr)

    def single(self, expr: ast.Expr, names: tuple[str, ...] = ()) -> Single:
        """Lower an expression that must be one value; several are a mistake."""
        operand = self.evaluate(expr, names)
        if not isinstance(operand, Record):
            return operand
        if len(operand.fields) == 1:
            return operand.fields[0][1]
        if not operand.fields:
            self.problems.error("HR314", "this gives nothing: its blocks only emit", expr.span)
            return BROKEN
        listed = ", ".join(f"`{name}`" for name in operand.names)
        self.problems.error(
            "HR224",
            f"one value is wanted here, but this has {len(operand.fields)}: {listed}",
            expr.span,
            help=f"take one of them: `{expr.span.text}.{operand.names[0]}`"
            if _is_short(expr.span.text)
            else f"take one of them: `.{operand.names[0]}`",
        )
        return BROKEN

    def inside(self) -> "Body":
        """Return a nested region with a block scope of its own."""
        return replace(self, scope=Scope(self.file, self.scope), nodes=[])

    def continued(self) -> "Body":
        """Return a nested region that goes on in the same scope."""
        return replace(self, nodes=[])

    def called(self, file: File) -> "Body":
        """Return a body in the same region whose names are those of another declaration."""
        return replace(self, scope=Scope(file))

    def add(
        self,
        kind: Kind,
        inputs: tuple[Value, ...],
        types: tuple[Type, ...],
        span: Span,
        stage: str,
        names: tuple[str, ...],
        *,
        regions: tuple[Region, ...] = (),
        checks: tuple[Check, ...] = (),
    ) -> tuple[Value, ...]:
        """Add a node to the region and return its outputs."""
        pairs = zip(types, names, strict=True)
        outputs = tuple(Value(type, name, span) for type, name in pairs)
        self.whole.nodes += 1
        self.nodes.append(Node(kind, inputs, outputs, span, stage, regions, checks))
        return outputs

    def value(self, single: Single, span: Span, name: str = "constant") -> Value:
        """Return the value of an operand; a literal becomes a Constant of its own dtype."""
        match single:
            case Made(value=value):
                return value
            case Known():
                try:
                    known = solid(typed(single, single.type))
                except LiteralError as error:
                    self.problems.error("HR216", str(error), span)
                    return Value(UNKNOWN, name, span)
                if isinstance(known.type, ListType) and known.type.item == UNKNOWN:
                    self.problems.error("HR217", "nothing says what an empty list holds", span)
                return self.constant(known, span, name)
            case Broken():
                return Value(single.type, name, span)

    def constant(self, known: Known, span: Span, name: str = "constant") -> Value:
        """Add a Constant that holds the literal as it is."""
        return self.add(Constant(known.literal), (), (known.type,), span, "constant", (name,))[0]

    def settle(self, type: Type) -> Type:
        """Return a type with all that is known of its sizes; the rest is known at run time only.

        What is unknown in the items of a list may differ from item to item and stays unknown.
        """
        match type:
            case TensorType(dtype, dims):
                return TensorType(dtype, tuple(self.dims.settle(dim) for dim in dims))
            case ListType(item, maximum):
                return ListType(self._settle_item(item), maximum)
            case OptionalType(item):
                return OptionalType(self.settle(item))
            case _:
                return type

    def resolve(self, type: Type) -> Type:
        """Return a type with all that is known of its sizes put in, as messages show it."""
        return map_dims(type, self.dims.resolve)

    def take_checks(self) -> tuple[Check, ...]:
        """Return what was assumed since the last call as checks of the stage being made."""
        return tuple(map(assumption_check, self.dims.take_assumptions()))

    def _settle_item(self, item: Type) -> Type:
        def settle(dim: Dim) -> Dim:
            resolved = self.dims.resolve(dim)
            return ANY_DIM if resolved == ANY_DIM else self.dims.settle(resolved)

        return map_dims(item, settle)


def assumption_check(assumption: Assumption) -> Check:
    text = f"{assumption.left} == {assumption.right}"
    return Check(assumption.left, "==", assumption.right, text)


def _is_short(text: str) -> bool:
    return len(text) <= 60 and "\n" not in text
