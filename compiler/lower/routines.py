"""Pipelines and functions in the language: each body is checked by itself once, with parameters
of any size, and inlined again at every call with the sizes of its arguments.

`return ... when c` becomes an `If` whose `else` holds what follows.
"""

from dataclasses import dataclass, replace

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.source import Span
from ...dsl.types import UNKNOWN, Dim, DimVar, Field, OptionalType, Type
from ..graph import Check, Constant, Graph, If, Region, Settings, Value
from .agree import Clash, adapt, compare, rename, type_dims
from .body import Body, Whole
from .entities import Routine, State
from .expressions import evaluate
from .literals import LiteralError, solid
from .merge import ArmResult, merge
from .mismatch import report_mismatch
from .operands import BROKEN, Broken, Known, Made, Operand, Record, Single
from .problems import did_you_mean
from .scope import Local, Scope
from .session import Session
from .statements import condition, lower_statement, named_fields

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
        inner = body.called(routine.file)
        for field, argument, param in zip(
            routine.signature.params, arguments, routine.params, strict=True
        ):
            inner.scope.give(field.name, argument, param.name.span, body.problems, parameter=True)
        names = _sizes_of(routine, arguments)
        with body.problems.called_from(call):
            return _Lowering(routine, names).statements(inner, 0)

    def _report_size(self, routine: Routine, call: Span) -> None:
        self.session.problems.error(
            "HR323",
            f"with `{routine.name}` inlined here there are more than {MOST_NODES:,} stages",
            call,
            notes=("what is called twice is there twice, and so is all that it calls",),
        )

    def _lower(self, routine: Routine) -> Graph | None:
        whole = Whole()
        problems = self.session.problems
        scope = Scope(routine.file)
        body = Body(problems, self.session.catalog, whole, scope, [], evaluate, self.inline)
        names: dict[DimVar, Dim] = {}
        params: list[Value] = []
        for field, param in zip(routine.signature.params, routine.params, strict=False):
            value = Value(_own_type(body, field.type, names), field.name, param.name.span)
            params.append(value)
            operand = Made(value) if value.type != UNKNOWN else BROKEN
            scope.give(field.name, operand, param.name.span, problems, parameter=True)
        operand = _Lowering(routine, names).statements(body, 0)
        if not isinstance(operand, Record) or BROKEN in [one for _, one in operand.fields]:
            return None
        results = tuple(body.value(one, routine.span, name) for name, one in operand.fields)
        return _graph(routine, whole, body, tuple(params), results)


@dataclass(frozen=True, slots=True)
class _Lowering:
    """One walk over a routine's body. `names` says what the names of its parameters stand for."""

    routine: Routine
    names: dict[DimVar, Dim]

    def statements(self, body: Body, start: int) -> Operand:
        """Lower statements from `start` on and return the results."""
        statements = self.routine.body.statements
        for i in range(start, len(statements)):
            statement = statements[i]
            last = i + 1 == len(statements)
            if isinstance(statement, ast.Return) and statement.when is not None:
                return self._early(body, statement, statement.when, i + 1)
            if isinstance(statement, ast.Return | ast.Result) and (
                isinstance(statement, ast.Return) or last
            ):
                operand = self._return(body, statement)
                body.scope.close(body.problems)
                if not last:
                    body.problems.error(
                        "HR315",
                        "nothing after `return` runs",
                        statements[i + 1].span,
                        secondary=(Label(statement.span, "this returns always"),),
                    )
                return operand
            lower_statement(body, statement)
        place = statements[-1] if statements else self.routine.body
        ends = isinstance(place, ast.Return)
        body.problems.error(
            "HR314",
            f"`{self.routine.name}` ends without `return`",
            place.span,
            "returns only when its condition holds" if ends else "",
            help=f"end it with `return {self._example()}`",
        )
        return BROKEN

    def _early(self, body: Body, statement: ast.Return, when: ast.Expr, after: int) -> Operand:
        test = condition(body, when, "return ... when")
        then, rest = body.continued(), body.continued()
        early = ArmResult(then, self._return(then, statement), statement.span)
        if after == len(self.routine.body.statements):
            self.statements(rest, after)  # says that a plain `return` is missing
            return BROKEN
        following = self.routine.body.statements[-1].span
        other = ArmResult(rest, self.statements(rest, after), following)
        if isinstance(test, Broken):
            return BROKEN
        names = tuple(field.name for field in self.routine.signature.results)
        inputs = (body.value(test, when.span, "when"),)
        merged = merge(body, If(), inputs, (early, other), statement.span, "if", names)
        return merged if isinstance(merged, Broken | Record) else Record(((names[0], merged),))

    def _return(self, body: Body, statement: ast.Return | ast.Result) -> Operand:
        """Lower the results, compared with the signature, in its order."""
        results = self.routine.signature.results
        bindings = (
            statement.fields
            if isinstance(statement, ast.Return)
            else (ast.Binding(None, statement.value, span=statement.span),)
        )
        only = results[0].name if len(results) == 1 else None
        given = dict(named_fields(body, bindings, only))
        known = {field.name: field for field in results}
        for name, binding in given.items():
            if name not in known:
                body.evaluate(binding.value)
                body.problems.error(
                    "HR212",
                    f"`{self.routine.name}` has no result `{name}`",
                    (binding.name or binding).span,
                    notes=(f"`{self.routine.name}` is {self.routine.signature}",),
                    help=did_you_mean(name, known),
                )
        missing = [field.name for field in results if field.name not in given]
        if missing and all(binding.name or only for binding in bindings):
            listed = ", ".join(f"`{name}`" for name in missing)
            there = [name for name in missing if isinstance(body.scope.find(name), Local)]
            body.problems.error(
                "HR211",
                f"`{self.routine.name}` gives {listed}, which is missing here",
                statement.span,
                notes=(f"`{self.routine.name}` is {self.routine.signature}",),
                help=f"add {', '.join(f'`{name} = {name}`' for name in there)}" if there else None,
            )
        names = dict(self.names)
        fields = tuple(
            (f.name, self._result(body, f, given[f.name], names) if f.name in given else BROKEN)
            for f in results
        )
        _attach(body, fields, body.take_checks())
        return Record(fields)

    def _result(
        self, body: Body, field: Field, binding: ast.Binding, names: dict[DimVar, Dim]
    ) -> Single:
        single = body.single(binding.value, (field.name,))
        span = binding.value.span

        def flexible(variable: DimVar) -> Dim:
            if variable not in names:
                names[variable] = body.dims.flexible(variable.name)
            return names[variable]

        wanted = rename(field.type, flexible)
        try:
            single = adapt(body, single, wanted, span)
        except LiteralError as error:
            message = f"`{field.name}` of `{self.routine.name}` is {field.type}, but {error}"
            body.problems.error("HR216", message, span)
            return BROKEN
        clash = compare(single.type, wanted, body.dims)
        if clash is None:
            return solid(single) if isinstance(single, Known) else single
        written, now = list(type_dims(field.type)), list(type_dims(wanted))
        known = [
            f"`{name}` is {body.dims.resolve(dim)}"
            for name, dim in zip(written, now, strict=True)
            if isinstance(name, DimVar) and str(body.dims.resolve(dim)) != str(name)
        ]
        report_mismatch(
            body,
            binding.value,
            single.type,
            field.type,
            f"`{self.routine.name}` gives `{field.name}`: {field.type}",
            code="HR213",
            notes=tuple(dict.fromkeys(known)) if clash is Clash.DIMS else (),
        )
        return BROKEN

    def _example(self) -> str:
        return ", ".join(f"{field.name} = ..." for field in self.routine.signature.results)


def _own_type(body: Body, type: Type, names: dict[DimVar, Dim]) -> Type:
    """Return a parameter's type inside the routine: its names stand for sizes of any value."""

    def rigid(variable: DimVar) -> Dim:
        if variable not in names:
            names[variable] = body.dims.rigid(variable.name)
        return names[variable]

    inner = type.item if isinstance(type, OptionalType) else type
    settled = body.settle(rename(inner, rigid))
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


def _attach(body: Body, fields: tuple[tuple[str, Single], ...], checks: tuple[Check, ...]) -> None:
    """Let the last stage that makes a result check what is assumed of the results' sizes."""
    if not checks:
        return
    made = {one.value for _, one in fields if isinstance(one, Made)}
    for i in range(len(body.nodes) - 1, -1, -1):
        node = body.nodes[i]
        if not isinstance(node.kind, Constant) and made & set(node.outputs):
            body.nodes[i] = replace(node, checks=(*node.checks, *checks))
            return


def _graph(
    routine: Routine,
    whole: Whole,
    body: Body,
    params: tuple[Value, ...],
    results: tuple[Value, ...],
) -> Graph:
    declaration = routine.declaration
    batch = deadline = None
    if isinstance(declaration, ast.Pipeline):
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
    )
