"""`state` and `next`: what a pipeline keeps from one request of a sequence to the next.

A state is one more parameter of the graph's body, and what `next` gives it one more result; the
runtime hands in what the request before has left. So passes and the planner see values like any
other, and nothing in a graph has an effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.source import Span
from ...dsl.types import UNKNOWN, DimAny, Field, OptionalType
from ..dimensions import type_dims
from .agree import adapt, compare
from .body import Body
from .constants import initial
from .entities import Declared, File, Routine
from .literals import LiteralError, solid
from .mismatch import report_mismatch
from .operands import BROKEN, Broken, Known, Operand, Record, Single, collapsed
from .problems import Problems, did_you_mean
from .session import Session
from .type_expressions import given_twice, read_type

IDLE = 60.0
"""Seconds that a state is kept between two requests where a pipeline does not say it."""


def idle_of(item: ast.Pipeline, problems: Problems) -> float | None:
    """Return how long a pipeline's state is kept, None for a pipeline that is not per sequence."""
    if not item.sequence:
        return None
    if item.batch is not None:
        problems.error(
            "HR343",
            "a pipeline that is `per sequence` takes one item in a request",
            item.batch.span,
            help="leave out `batch`: the rows of different sequences meet all the same",
        )
    if item.idle is not None and item.idle.seconds <= 0:
        problems.error("HR230", "`idle` is longer than nothing", item.idle.span)
    return item.idle.seconds if item.idle is not None else IDLE


def require_kept(
    routine: Routine, controls: Sequence[Field], problems: Problems, *, told: bool
) -> None:
    """Report a pipeline for which it is no matter which sequence a request belongs to; with `told`
    a model or function of it is told of each request, and may keep something itself."""
    declared = any(isinstance(one, ast.State) for one in routine.body.statements)
    if routine.idle is None or controls or declared or told:
        return
    problems.error(
        "HR340",
        f"`{routine.name}` is `per sequence`, but keeps nothing from request to request",
        routine.span,
        help="keep something, as in `state count: i64 = 0`; or leave out `per sequence`",
    )


def read_states(
    item: ast.Fn | ast.Pipeline, block: ast.Block, file: File, session: Session
) -> tuple[Declared, ...]:
    """Read the states that a routine's own block declares."""
    found: list[Declared] = []
    for one in block.statements:
        if not isinstance(one, ast.State):
            continue
        if not isinstance(item, ast.Pipeline) or not item.sequence:
            session.problems.error(
                "HR340",
                f"`{one.name.text}` is kept for a sequence, but `{item.name.text}` is not "
                "`per sequence`",
                one.span,
                help=f"declare it: `pipeline {item.name.text}(...) -> (...) per sequence`"
                if isinstance(item, ast.Pipeline)
                else "give it to the function, and let the function return what it becomes",
            )
            continue
        state = _declared(one, file, session)
        if state is not None:
            found.append(state)
    return tuple(found)


def _declared(written: ast.State, file: File, session: Session) -> Declared | None:
    type = read_type(written.type, file, session.problems)
    if type == UNKNOWN:
        return None
    name, problems = written.name.text, session.problems
    if not all(isinstance(dim, int | DimAny) for dim in type_dims(type)):
        problems.error(
            "HR341",
            f"the sizes of `{name}` outlive a request: they are numbers, or `_` where they change",
            written.type.span,
        )
        return None
    known = initial(written.init, type, name, "HR341", file, session)
    return None if known is None else Declared(name, type, solid(known).literal, written.span)


@dataclass(frozen=True, slots=True)
class Following:
    """What `next` has given the states of a routine so far, in one walk over its own block."""

    states: Sequence[Declared]
    values: dict[str, Single] = field(default_factory=dict[str, Single])
    places: dict[str, Span] = field(default_factory=dict[str, Span])

    def give(self, body: Body, statement: ast.Next) -> tuple[tuple[str, Single], ...]:
        """Lower a `next`; return what it gave, by name."""
        known = {state.name: state for state in self.states}
        given: list[tuple[str, Single]] = []
        for binding in statement.fields:
            name = binding.name.text if binding.name is not None else None
            if name is None and len(known) == 1:
                name = next(iter(known))
            if name is None or name not in known:
                body.evaluate(binding.value)
                body.problems.error(
                    "HR342",
                    f"there is no state `{name}`" if name else "`next` names what it sets",
                    (binding.name or binding).span,
                    help=did_you_mean(name, known) if name else None,
                )
                continue
            single = _fitted(body, binding.value, known[name])
            if name in self.places:
                given_twice(name, binding.span, self.places[name], body.problems)
                continue
            self.values[name], self.places[name] = single, binding.span
            given.append((name, single))
        return tuple(given)

    def require_all(self, problems: Problems, span: Span, when: str) -> bool:
        """Report the states that nothing has set before `span`; False if there are some."""
        missing = [state for state in self.states if state.name not in self.values]
        if missing:
            listed = ", ".join(f"`{state.name}`" for state in missing)
            problems.error(
                "HR342",
                f"{listed} has no `next` when {when}",
                span,
                secondary=tuple(Label(state.span, "kept here") for state in missing),
                help="set it before: "
                + f"`next {', '.join(f'{state.name} = {state.name}' for state in missing)}`"
                + " keeps it as it is",
            )
            self.values.update({state.name: BROKEN for state in missing})
        return not missing

    @property
    def broken(self) -> bool:
        return any(isinstance(one, Broken) for one in self.values.values())


def _fitted(body: Body, expr: ast.Expr, state: Declared) -> Single:
    """Lower what a state becomes and compare it with the state's type."""
    operand: Operand = collapsed(body.evaluate(expr, (state.name,)))
    single = body.single(expr) if isinstance(operand, Record) else operand
    try:
        single = adapt(body, single, state.type, expr.span)
    except LiteralError as error:
        body.problems.error("HR344", f"`{state.name}` is {state.type}, but {error}", expr.span)
        return BROKEN
    if compare(single.type, state.type, body.dims) is not None:
        report_mismatch(
            body, expr, single.type, state.type, f"`{state.name}` is {state.type}", code="HR344"
        )
        return BROKEN
    if not isinstance(single, Known):
        return single
    if isinstance(state.type, OptionalType):
        return Known(single.literal, body.settle(state.type))
    return solid(single)
