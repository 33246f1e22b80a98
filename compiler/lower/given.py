"""The arguments of a call beside the signature of what is called: kinds, dtypes, ranks, sizes."""

from dataclasses import dataclass

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.linear import variables
from ...dsl.source import Span
from ...dsl.types import Dim, DimVar, OptionalType, Signature, Type
from ..dimensions import rename_dim, type_dims
from ..graph import Check, Kind, Value
from .agree import Clash, adapt, compare_form, instantiate
from .arguments import Slot, bind
from .batch_axes import shown_in_batch
from .body import Body
from .entities import Constraint
from .literals import LiteralError
from .mismatch import conflict, named, report_mismatch
from .operands import BROKEN, Known, Single


@dataclass(frozen=True, slots=True)
class Callee:
    """What a call with a declared signature runs; `axes` are those of a model's batch."""

    name: str
    signature: Signature
    defaults: tuple[Known | None, ...]
    kind: Kind | None
    where: tuple[Constraint, ...] = ()
    axes: tuple[int | None, ...] = ()


class Given:
    """The arguments of a call, compared with its signature. `sound` is False after a mistake."""

    def __init__(self, body: Body, call: ast.Call, callee: Callee) -> None:
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
        axis = self._callee.axes[place] if self._callee.axes else None
        value = self._call if expr is None else expr
        report_mismatch(
            self._body,
            value,
            found,
            field.type,
            f"{subject} for `{field.name}`" if several else subject,
            call=self._call if expr is not None else None,
            secondary=labels,
            notes=notes,
            in_batch=shown_in_batch(
                self._body, self.singles[place], named(value), field.type, self._callee.name, axis
            ),
        )


def _is_arithmetic(dim: Dim) -> bool:
    return not isinstance(dim, int | DimVar)
