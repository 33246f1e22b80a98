"""Pipelines and functions in the language: each body is checked by itself once, with parameters
of any size, and inlined again at every call with the sizes of its arguments.
"""

from dataclasses import dataclass, replace

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.source import Span
from ...dsl.types import UNKNOWN, Dim, DimVar, Field, OptionalType, Type
from ..dimensions import rename_dims, type_dims
from ..graph import Emit, Graph, Region, Settings, StateVariable, Value
from ..rewrite import walk
from .body import Body, Whole
from .controls import fields_of
from .emits import not_a_stream
from .entities import Routine, State
from .expressions import evaluate, perform
from .operands import BROKEN, Made, Operand, Record, Single
from .routine_body import RoutineBody
from .scope import Scope
from .session import Session
from .states import Following, require_kept

MOST_NODES = 10_000  # of one pipeline, literals included, after which nothing more is inlined


@dataclass(frozen=True, slots=True, eq=False)
class Routines:
    """Checks and inlines the routines of one compilation."""

    session: Session

    def check(self, routine: Routine, call: Span | None = None) -> None:
        """Check the body once; a body that is being checked and is called again is recursion."""
        if routine.state is State.CHECKING and call is not None:
            self.session.problems.error(
                "HR111",
                f"`{routine.name}` calls itself",
                call,
                secondary=(Label(routine.span, f"`{routine.name}` is defined here"),),
                notes=("calls are inlined, so there is no recursion",),
            )
        if routine.state is not State.UNCHECKED:
            return
        routine.state = State.CHECKING
        before = self.session.problems.errors
        graph = self._lower(routine)
        sound = graph is not None and self.session.problems.errors == before
        routine.state = State.SOUND if sound else State.BROKEN
        routine.graph = graph if sound else None

    def inline(
        self, body: Body, routine: Routine, arguments: tuple[Single, ...], call: Span
    ) -> Operand:
        """Lower the body of a called routine into the caller's region."""
        self.check(routine, call)
        if routine.state is not State.SOUND:
            return Record(tuple((field.name, BROKEN) for field in routine.signature.results))
        if body.whole.nodes > MOST_NODES:
            self._report_size(routine, call)
            return Record(tuple((field.name, BROKEN) for field in routine.signature.results))
        if routine.stream:
            self.session.problems.error(
                "HR338",
                f"`{routine.name}` is a stream and gives nothing that could be used here",
                call,
                secondary=(Label(routine.span, f"`{routine.name}` emits"),),
                help="move what both do into a function, and call that",
            )
            return Record(tuple((field.name, BROKEN) for field in routine.signature.results))
        if routine.idle is not None:
            self._refuse_states(routine, call)
            return Record(tuple((field.name, BROKEN) for field in routine.signature.results))
        inner = replace(body.called(routine.file), emit_with=not_a_stream)
        for field, argument, param in zip(
            routine.signature.params, arguments, routine.params, strict=True
        ):
            inner.scope.give(field.name, argument, param.name.span, body.problems, parameter=True)
        names = _sizes_of(routine, arguments)
        with body.problems.called_from(call):
            return RoutineBody(routine, names).statements(inner, 0)

    def _refuse_states(self, routine: Routine, call: Span) -> None:
        self.session.problems.error(
            "HR345",
            f"`{routine.name}` keeps state for a sequence, and only requests have one",
            call,
            secondary=(Label(routine.span, f"`{routine.name}` is `per sequence`"),),
            help="move what both do into a function that takes and gives back what is kept",
        )

    def _report_size(self, routine: Routine, call: Span) -> None:
        self.session.problems.error(
            "HR323",
            f"with `{routine.name}` inlined here there are more than {MOST_NODES:,} stages",
            call,
            notes=("what is called twice is there twice, and so is all that it calls",),
        )

    def _require_emit(self, routine: Routine, region: Region) -> None:
        if not any(isinstance(node.kind, Emit) for node in walk(region)):
            self.session.problems.error(
                "HR337",
                f"`{routine.name}` is a stream, but emits nothing",
                routine.span,
                help="emit, or return results without `stream`",
            )

    def _lower(self, routine: Routine) -> Graph | None:
        whole = Whole(controls={} if routine.idle is not None else None)
        problems = self.session.problems
        scope = Scope(routine.file)
        names: dict[DimVar, Dim] = {}
        following = Following(routine.states)
        kept: dict[str, Value] = {}
        lowering = RoutineBody(routine, names, kept, following)
        send = lowering.emit if routine.stream else not_a_stream
        catalog = self.session.catalog
        body = Body(problems, catalog, whole, scope, [], evaluate, perform, self.inline, send)
        params: list[Value] = []
        for field, param in zip(routine.signature.params, routine.params, strict=False):
            value = Value(_own_type(body, field.type, names), field.name, param.name.span)
            params.append(value)
            operand = Made(value) if value.type != UNKNOWN else BROKEN
            scope.give(field.name, operand, param.name.span, problems, parameter=True)
        for state in routine.states:
            kept[state.name] = Value(body.settle(state.type), state.name, state.span)
        errors = problems.errors
        operand = lowering.statements(body, 0)
        controls = fields_of(whole.controls)
        params += [(whole.controls or {})[one.name] for one in controls]
        params += kept.values()
        stages = (*whole.models.values(), *whole.functions.values())
        require_kept(routine, controls, problems, told=any(one.told for one in stages))
        region = Region(tuple(params), tuple(body.nodes), ())
        if routine.stream and problems.errors == errors:
            self._require_emit(routine, region)
        if not isinstance(operand, Record) or BROKEN in [one for _, one in operand.fields]:
            return None
        if following.broken:
            return None
        results = tuple(body.value(one, routine.span, name) for name, one in operand.fields)
        results += tuple(
            body.value(following.values[state.name], state.span, state.name)
            for state in routine.states
        )
        return _graph(routine, whole, body, tuple(params), results)


def _own_type(body: Body, type: Type, names: dict[DimVar, Dim]) -> Type:
    """Return a parameter's type inside the routine: its names stand for sizes of any value."""

    def rigid(variable: DimVar) -> Dim:
        if variable not in names:
            names[variable] = body.dims.rigid(variable.name)
        return names[variable]

    inner = type.item if isinstance(type, OptionalType) else type
    settled = body.settle(rename_dims(inner, rigid))
    return OptionalType(settled) if isinstance(type, OptionalType) else settled


def _sizes_of(routine: Routine, arguments: tuple[Single, ...]) -> dict[DimVar, Dim]:
    """Return what the names of a called routine's parameters are in this call."""
    names: dict[DimVar, Dim] = {}
    for field, argument in zip(routine.signature.params, arguments, strict=True):
        written, found = list(type_dims(field.type)), list(type_dims(argument.type))
        for name, dim in zip(written, found, strict=False):
            if isinstance(name, DimVar):
                names.setdefault(name, dim)
    return names


def _graph(
    routine: Routine,
    whole: Whole,
    body: Body,
    params: tuple[Value, ...],
    results: tuple[Value, ...],
) -> Graph:
    declaration = routine.declaration
    batch = deadline = None
    called = ""
    if isinstance(declaration, ast.Pipeline):
        called = declaration.called.value if declaration.called else ""
        deadline = declaration.deadline.seconds if declaration.deadline else None
        batch = int(declaration.batch.value) if declaration.batch else None
    defaults = tuple(
        (
            default is not None or isinstance(field.type, OptionalType),
            default.literal if default else None,
        )
        for default, field in zip(routine.defaults, routine.signature.params, strict=True)
    )
    return Graph(
        name=routine.name,
        signature=routine.signature,
        defaults=defaults,
        body=Region(params, tuple(body.nodes), results),
        models=tuple(whole.models.values()),
        functions=tuple(whole.functions.values()),
        settings=Settings(),
        span=routine.span,
        batch=batch,
        deadline=deadline,
        stream=routine.stream,
        states=tuple(StateVariable(Field(s.name, s.type), s.initial) for s in routine.states),
        idle=routine.idle,
        controls=fields_of(whole.controls),
        called=called,
        outside=tuple(one.outside for one in (*declaration.params, *declaration.results)),
    )
