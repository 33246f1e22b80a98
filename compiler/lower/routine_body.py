"""The body of a pipeline or function: its statements, and results that fit its signature.

`return ... when c` becomes an `If` whose `else` holds what follows.
"""

from dataclasses import dataclass, field, replace

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.types import Dim, DimVar, Field
from ..dimensions import rename_dims, type_dims
from ..graph import Check, Constant, Emit, If, Region, Value
from .agree import Clash, adapt, compare
from .body import Body
from .entities import Routine
from .literals import LiteralError, solid
from .merge import ArmResult, merge
from .mismatch import report_mismatch
from .operands import BROKEN, Broken, Known, Made, Operand, Record, Single
from .problems import did_you_mean
from .scope import Local
from .statements import condition, lower_statement, named_fields
from .states import Following


@dataclass(frozen=True, slots=True)
class RoutineBody:
    """One walk over a routine's body. `names` says what the names of its parameters stand for,
    `kept` what its states are when a request begins, `following` what they become."""

    routine: Routine
    names: dict[DimVar, Dim]
    kept: dict[str, Value] = field(default_factory=dict[str, Value])
    following: Following = field(default_factory=lambda: Following(()))

    def statements(self, body: Body, start: int) -> Operand:
        """Lower statements from `start` on and return the results."""
        statements = self.routine.body.statements
        if start == 0:
            body.scope.sizes.update({name.name: dim for name, dim in self.names.items()})
        if self.routine.stream:
            return self._stream(body)
        for i in range(start, len(statements)):
            statement = statements[i]
            last = i + 1 == len(statements)
            if isinstance(statement, ast.Return) and statement.when is not None:
                return self._early(body, statement, statement.when, i + 1)
            if isinstance(statement, ast.Return | ast.Result) and (
                isinstance(statement, ast.Return) or last
            ):
                operand = self._return(body, statement)
                self.following.require_all(body.problems, statement.span, "this returns")
                body.scope.close(body.problems)
                if not last:
                    body.problems.error(
                        "HR315",
                        "nothing after `return` runs",
                        statements[i + 1].span,
                        secondary=(Label(statement.span, "this returns always"),),
                    )
                return operand
            self._lower(body, statement)
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

    def _stream(self, body: Body) -> Operand:
        """Lower the statements of a pipeline whose results are what it emits."""
        for statement in self.routine.body.statements:
            if isinstance(statement, ast.Return):
                for binding in statement.fields:
                    body.evaluate(binding.value)
                body.problems.error(
                    "HR337",
                    f"`{self.routine.name}` is a stream: what it gives is emitted, not returned",
                    statement.span,
                    help=f"write `emit {self._example()}`",
                )
            else:
                self._lower(body, statement)
        self.following.require_all(body.problems, self.routine.span, "the stream ends")
        body.scope.close(body.problems)
        return Record(())

    def _lower(self, body: Body, statement: ast.Statement) -> None:
        if isinstance(statement, ast.State) and statement.name.text in self.kept:
            value, name = self.kept[statement.name.text], statement.name
            body.scope.give(name.text, Made(value), name.span, body.problems)
        elif isinstance(statement, ast.Next) and self.kept:
            given = self.following.give(body, statement)
            _attach(body, given, body.take_checks())
        else:
            lower_statement(body, statement)

    def emit(self, body: Body, statement: ast.Emit) -> None:
        """Send one response; with `when`, only where that holds."""
        if statement.when is None:
            self._send(body, statement)
            return
        test = condition(body, statement.when, "emit ... when")
        then = body.continued()
        self._send(then, statement)
        if not isinstance(test, Broken):
            inputs = (body.value(test, statement.when.span, "when"),)
            arms = (Region((), tuple(then.nodes), ()), Region((), (), ()))
            body.add(If(), inputs, (), statement.span, "if", (), regions=arms)

    def _send(self, body: Body, statement: ast.Emit) -> None:
        sent = self._return(body, statement)
        if isinstance(sent, Record) and BROKEN not in [single for _, single in sent.fields]:
            values = tuple(body.value(one, statement.span, name) for name, one in sent.fields)
            body.add(Emit(), values, (), statement.span, "emit", ())

    def _early(self, body: Body, statement: ast.Return, when: ast.Expr, after: int) -> Operand:
        test = condition(body, when, "return ... when")
        self.following.require_all(body.problems, statement.span, "this may return")
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

    def _return(self, body: Body, statement: ast.Return | ast.Result | ast.Emit) -> Operand:
        """Lower the results, compared with the signature, in its order."""
        results = self.routine.signature.results
        bindings = (
            statement.fields
            if isinstance(statement, ast.Return | ast.Emit)
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
        unnamed = any(binding.name is None for binding in bindings) and len(bindings) > 1
        misnamed = len(given.keys() - known.keys()) >= len(missing)  # which has been said
        if missing and not unnamed and not misnamed:
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

        wanted = rename_dims(field.type, flexible)
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
