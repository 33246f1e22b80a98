"""Calls: of ops, models, functions and pipelines."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.linear import variables
from ...dsl.nearest import nearest
from ...dsl.source import Span
from ...dsl.types import Dim, DimVar, OptionalType, Signature, Type
from ...stdlib.catalog import Family
from ..graph import Check, FunctionCall, Kind, ModelCall, Value
from .agree import Clash, adapt, compare_form, instantiate, rename_dim, type_dims
from .arguments import Slot, bind
from .body import Body
from .entities import (
    Constraint,
    Entity,
    Mistaken,
    NamedFunction,
    NamedModel,
    Routine,
    UsedFamily,
    UsedFile,
    describe,
)
from .literals import LiteralError
from .mismatch import conflict, report_mismatch
from .operands import BROKEN, Known, Made, Operand, Single
from .ops import lower_op, output_names, record
from .problems import did_mean, did_you_mean
from .scope import Local


def lower_call(body: Body, call: ast.Call, names: tuple[str, ...]) -> Operand:
    """Lower a call of whatever its callee is."""
    callee = call.callee
    if isinstance(callee, ast.Name):
        return _of_name(body, call, callee, names)
    if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
        found = body.scope.find(callee.value.text)
        if isinstance(found, UsedFamily):
            return _of_family(body, call, callee, found.family, names)
        if isinstance(found, UsedFile):
            entity = found.file.find(callee.name.text)
            candidates = tuple(found.file.entities)
            return _of_entity(body, call, entity, callee.name, candidates, names)
        if found is None:
            return _unknown_module(body, call, callee.value)
        if isinstance(found, Mistaken):
            return _arguments_only(body, call)
        if isinstance(found, Local) and _is_module(body, callee.value.text):
            return _hidden_module(body, call, callee.value, found)
    body.problems.error("HR115", "this is a value and cannot be called", callee.span)
    return _arguments_only(body, call)


def _of_name(body: Body, call: ast.Call, callee: ast.Name, names: tuple[str, ...]) -> Operand:
    found = body.scope.find(callee.text)
    if isinstance(found, Local):
        body.problems.error(
            "HR115",
            f"`{callee.text}` is a value and cannot be called",
            callee.span,
            secondary=(Label(found.span, f"`{callee.text}` is given here"),),
        )
        return _arguments_only(body, call)
    op = body.catalog.find(None, callee.text) if found is None else None
    if op is not None:
        return lower_op(body, call, op, callee.text, names)
    if found is None and callee.text == "zip":
        body.problems.error(
            "HR115", "`zip` stands after `in` only: `for a, b in zip(xs, ys) { ... }`", callee.span
        )
        return _arguments_only(body, call)
    callables = [
        name
        for name, one in body.file.entities.items()
        if isinstance(one, NamedModel | NamedFunction | Routine)
    ]
    core = body.catalog.family("core")
    candidates = (*callables, *(core.ops if core is not None else ()))
    return _of_entity(body, call, found, callee, candidates, names)


def _of_family(
    body: Body, call: ast.Call, callee: ast.Attribute, family: Family, names: tuple[str, ...]
) -> Operand:
    op = family.ops.get(callee.name.text)
    if op is not None:
        return lower_op(body, call, op, callee.span.text, names)
    module = callee.value.span.text
    body.problems.error(
        "HR103",
        f"`{module}` has no op `{callee.name.text}`",
        callee.name.span,
        help=did_you_mean(callee.name.text, family.ops),
    )
    return _arguments_only(body, call)


def _of_entity(
    body: Body,
    call: ast.Call,
    entity: Entity | None,
    name: ast.Ident | ast.Name,
    candidates: Sequence[str],
    names: tuple[str, ...],
) -> Operand:
    match entity:
        case NamedModel(definition=model, where=where, defaults=defaults):
            made = _Callee(model.name, model.signature, defaults, ModelCall(model.name), where)
            operand = _lower(body, call, made, names)
            body.whole.models.setdefault(model.name, model)
            return operand
        case NamedFunction(definition=function, defaults=defaults):
            kind = FunctionCall(function.name)
            made = _Callee(function.name, function.signature, defaults, kind)
            operand = _lower(body, call, made, names)
            body.whole.functions.setdefault(function.name, function)
            return operand
        case Routine():
            return _inline(body, call, entity)
        case Mistaken():
            pass
        case None:
            body.problems.error(
                "HR101",
                f"there is no function, model or op `{name.text}`",
                name.span,
                help=_other_family(body, name.text) or did_you_mean(name.text, candidates),
            )
        case _:
            message = f"`{name.text}` is {describe(entity)} and cannot be called"
            body.problems.error("HR115", message, name.span)
    return _arguments_only(body, call)


def _other_family(body: Body, name: str) -> str | None:
    """Say which module has an op that was called without it."""
    for family in body.catalog.families:
        if family != "core" and body.catalog.find(family, name) is not None:
            return f"did you mean `{family}.{name}`?"
    return None


def _unknown_module(body: Body, call: ast.Call, module: ast.Name) -> Operand:
    known = body.catalog.family(module.text)
    if known is not None:
        message = f"`{module.text}` is not used in this file"
        help = f"add `use {module.text}` at the top"
    else:
        message = f"there is no value or module `{module.text}`"
        used = [
            n for n, one in body.file.entities.items() if isinstance(one, UsedFamily | UsedFile)
        ]
        meant = nearest(module.text, (*body.scope.names, *used, *body.catalog.families))
        if meant is not None:
            body.scope.find(meant)  # it is used, but for the mistake
        help = did_mean(meant)
    body.problems.error("HR101", message, module.span, help=help)
    return _arguments_only(body, call)


def _is_module(body: Body, name: str) -> bool:
    return isinstance(body.file.entities.get(name), UsedFamily | UsedFile)


def _hidden_module(body: Body, call: ast.Call, module: ast.Name, local: Local) -> Operand:
    body.file.find(module.text)  # it is used, but for the mistake
    body.problems.error(
        "HR115",
        f"`{module.text}` is a value here and hides the module of that name",
        module.span,
        secondary=(Label(local.span, f"`{module.text}` is given here"),),
        help="give the value another name",
    )
    return _arguments_only(body, call)


def _arguments_only(body: Body, call: ast.Call) -> Operand:
    """Look for mistakes in the arguments of a call that means nothing."""
    for argument in call.arguments:
        body.evaluate(argument.value)
    return BROKEN


@dataclass(frozen=True, slots=True)
class _Callee:
    """What a call with a declared signature runs."""

    name: str
    signature: Signature
    defaults: tuple[Known | None, ...]
    kind: Kind | None
    where: tuple[Constraint, ...] = ()


def _lower(body: Body, call: ast.Call, callee: _Callee, names: tuple[str, ...]) -> Operand:
    fields = callee.signature.results
    given = _Given(body, call, callee)
    if not given.sound:
        return record([field.name for field in fields], [BROKEN] * len(fields))
    assert callee.kind is not None
    types = tuple(body.settle(type) for type in given.results)
    checks = (*given.checks(), *body.take_checks())
    inputs = given.values()
    results = [field.name for field in fields]
    outputs = body.add(
        callee.kind,
        inputs,
        types,
        call.span,
        callee.name,
        output_names(callee.name, results, names),
        checks=checks,
    )
    return record(results, tuple(map(Made, outputs)))


def _inline(body: Body, call: ast.Call, routine: Routine) -> Operand:
    callee = _Callee(routine.name, routine.signature, routine.defaults, None)
    given = _Given(body, call, callee)
    fields = routine.signature.results
    if not given.sound:
        return record([field.name for field in fields], [BROKEN] * len(fields))
    return body.inline_with(body, routine, given.singles, call.span)


class _Given:
    """The arguments of a call, compared with its signature. `sound` is False after a mistake."""

    def __init__(self, body: Body, call: ast.Call, callee: _Callee) -> None:
        self._body, self._call, self._callee = body, call, callee
        fields = callee.signature.params
        slots = [
            Slot(field.name, default is None and not isinstance(field.type, OptionalType))
            for field, default in zip(fields, callee.defaults, strict=True)
        ]
        shown = str(callee.signature)
        bound = bind(call, callee.name, slots, shown, body.problems)
        evaluated = {id(one): body.single(one.value) for one in call.arguments}
        self.sound = bound.complete
        self._params, self.results, self._names = instantiate(callee.signature, body.dims)
        self._exprs: list[ast.Expr | None] = []
        singles: list[Single] = []
        for i, arguments in enumerate(bound.arguments):
            expr = arguments[0].value if arguments else None
            single = evaluated[id(arguments[0])] if arguments else self._absent(i)
            self._exprs.append(expr)
            singles.append(single if expr is None else self._adapted(i, single, expr))
        self.singles = tuple(singles)
        if self.sound:
            self._compare()
        self.sound &= not any(single == BROKEN for single in singles)

    def values(self) -> tuple[Value, ...]:
        """Return the arguments as values; literals become constants."""
        spans = [expr.span if expr is not None else self._call.span for expr in self._exprs]
        names = [field.name for field in self._callee.signature.params]
        rows = zip(self.singles, spans, names, strict=True)
        return tuple(self._body.value(single, span, name) for single, span, name in rows)

    def checks(self) -> tuple[Check, ...]:
        """Return the `where` constraints that are not proved; report those that are refuted."""
        checks: list[Check] = []
        for one in self._callee.where:
            left, right = self._dim(one.left), self._dim(one.right)
            holds = self._body.dims.holds(left, one.op, right)
            if holds is None:
                checks.append(Check(left, one.op, right, one.text))
            elif not holds:
                self._refuted(one)
        return tuple(checks)

    def _dim(self, dim: Dim) -> Dim:
        return self._body.dims.resolve(rename_dim(dim, lambda v: self._names.get(v, v)))

    def _refuted(self, one: Constraint) -> None:
        names = sorted(variables(one.left) | variables(one.right), key=str)
        sizes = " and ".join(f"`{name}` is {self._dim(name)}" for name in names)
        self._body.problems.error(
            "HR316",
            f"`{self._callee.name}` asks for `{one.text}`, but {sizes or 'that never holds'}",
            self._call.span,
            secondary=(Label(one.span, "asked for here"),),
        )

    def _absent(self, place: int) -> Single:
        default = self._callee.defaults[place]
        if default is not None:
            return default
        type = self._params[place]
        return Known(None, type) if isinstance(type, OptionalType) else BROKEN

    def _adapted(self, place: int, single: Single, expr: ast.Expr) -> Single:
        try:
            return adapt(self._body, single, self._params[place], expr.span)
        except LiteralError as error:
            field = self._callee.signature.params[place]
            message = f"`{field.name}` of `{self._callee.name}` is {field.type}, but {error}"
            self._body.problems.error("HR216", message, expr.span)
            self.sound = False
            return BROKEN

    def _compare(self) -> None:
        """Compare kinds, dtypes and ranks, then sizes: those that are names before arithmetic."""
        sizes: list[tuple[int, int, Dim, Dim]] = []
        wrong: set[int] = set()
        for place, (single, wanted) in enumerate(zip(self.singles, self._params, strict=True)):
            pairs = compare_form(single.type, wanted)
            if isinstance(pairs, Clash):
                wrong.add(place)
                self._report(place, single.type, ())
                continue
            sizes += [(place, axis, *pair) for axis, pair in enumerate(pairs)]
        first: dict[DimVar, Span] = {}
        for place, axis, found, wanted in sorted(sizes, key=lambda one: _is_arithmetic(one[3])):
            if place in wrong:
                continue
            expr = self._exprs[place]
            if self._body.dims.unify(found, wanted):
                if expr is not None:
                    for variable in variables(wanted):
                        first.setdefault(variable, expr.span)
                continue
            wrong.add(place)
            self._conflict(place, axis, found, wanted, first)
        self.sound &= not wrong

    def _conflict(
        self, place: int, axis: int, found: Dim, wanted: Dim, first: dict[DimVar, Span]
    ) -> None:
        body, expr = self._body, self._exprs[place]
        written = list(type_dims(self._callee.signature.params[place].type))[axis]
        labels = [
            Label(first[v], f"`{v}` is {body.dims.resolve(v)} here")
            for v in sorted(variables(wanted), key=str)
            if v in first and (expr is None or first[v] != expr.span)
        ]
        note = conflict(body, found, wanted, written, axis)
        self._report(place, self.singles[place].type, (note,), tuple(labels))

    def _report(
        self, place: int, found: Type, notes: tuple[str, ...], labels: tuple[Label, ...] = ()
    ) -> None:
        field = self._callee.signature.params[place]
        expr = self._exprs[place]
        self.sound = False
        several = len(self._callee.signature.params) > 1
        subject = f"`{self._callee.name}` wants {field.type}"
        report_mismatch(
            self._body,
            expr if expr is not None else self._call,
            found,
            field.type,
            f"{subject} for `{field.name}`" if several else subject,
            call=self._call if expr is not None else None,
            secondary=labels,
            notes=notes,
        )


def _is_arithmetic(dim: Dim) -> bool:
    return not isinstance(dim, int | DimVar)
