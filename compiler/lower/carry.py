"""`loop`: its block becomes a region that runs again and again with the values that it carries.

The block ends with `next`, which gives the values of the next turn, and may say `stop when` after
it. Turns end when the condition holds or `max` of them have run; what `next` gave last is what
the loop gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.source import Span
from ...dsl.types import UNKNOWN, Dim, DimVar, OptionalType, TensorType, Type
from ..dimensions import rename_dims, type_dims
from ..graph import Check, Constant, Loop, Region, Value
from .agree import Clash, adapt, compare, compare_form
from .body import Body
from .literals import LiteralError, solid
from .mismatch import made_here, named, report_mismatch
from .operands import BROKEN, Broken, Known, Made, Operand, Record, Single, collapsed
from .ops import output_names
from .problems import did_you_mean
from .statements import condition, lower_statement
from .type_expressions import given_twice, read_type
from .zeros import ZEROS, is_zeros, zeros_of


@dataclass(frozen=True, slots=True)
class _Carried:
    """A carried value: its `type` as written (`_` may differ from turn to turn), where it starts,
    and the parameter of the region that stands for it."""

    written: ast.Carried
    type: Type
    start: Single
    param: Value

    @property
    def name(self) -> str:
        return self.written.name.text


def lower_loop(body: Body, expr: ast.Loop, names: tuple[str, ...]) -> Operand:
    most = _most(body, expr.maximum)
    inner = body.inside()
    before: list[Check] = []
    carried = _carried(body, inner, expr, before)
    for one in carried:
        operand = Made(one.param) if one.param.type != UNKNOWN else BROKEN
        name = one.written.name
        inner.scope.give(one.name, operand, name.span, body.problems, parameter=True)
    for statement in expr.body.statements[: _length(expr.body)]:
        lower_statement(inner, statement)
    following, stop = _ends(inner, expr)
    within: list[Check] = []
    given = _next(inner, carried, following, within) if following is not None else {}
    test = None if stop is None else condition(inner, stop.condition, "stop when")
    inner.scope.close(body.problems)
    broken = [one for one in (most, test, *(c.start for c in carried)) if isinstance(one, Broken)]
    if broken or len(given) != len(carried) or BROKEN in given.values():
        return Record(tuple((one.name, BROKEN) for one in carried)) if carried else BROKEN
    region, left = _region(inner, carried, given, test, stop, tuple(within))
    return _add(body, expr, most, carried, region, (*before, *left), names)


def _add(
    body: Body,
    expr: ast.Loop,
    most: Single,
    carried: Sequence[_Carried],
    region: Region,
    checks: tuple[Check, ...],
    names: tuple[str, ...],
) -> Operand:
    inputs = (
        body.value(most, expr.maximum.span, "max"),
        *(body.value(one.start, one.written.init.span, one.name) for one in carried),
    )
    types = tuple(body.settle(one.type) for one in carried)
    fields = [one.name for one in carried]
    labels = output_names("loop", fields, names)
    stops = len(region.results) > len(carried)
    outputs = body.add(
        Loop(stops), inputs, types, expr.span, "loop", labels, regions=(region,), checks=checks
    )
    return Record(tuple(zip(fields, map(Made, outputs), strict=True)))


def _most(body: Body, expr: ast.Expr) -> Single:
    """Lower the bound: one whole number, known now or when the loop begins."""
    single = body.single(expr)
    type = body.resolve(single.type)
    if type == UNKNOWN:
        return single
    if not isinstance(type, TensorType) or type.dims or not type.dtype.is_integer:
        whole = isinstance(type, TensorType) and not type.dims and type.dtype.is_float
        body.problems.error(
            "HR333",
            f"`max` is a whole number of turns, but {named(expr)} is {type}",
            expr.span,
            secondary=made_here(body, expr),
            help=f"write `cast({expr.span.text}, i64)`" if whole else None,
        )
        return BROKEN
    if isinstance(single, Known) and isinstance(single.literal, int) and single.literal < 0:
        body.problems.error("HR333", "a loop cannot run a negative number of times", expr.span)
        return BROKEN
    return single


def _carried(body: Body, inner: Body, expr: ast.Loop, checks: list[Check]) -> list[_Carried]:
    """Read what is carried. Names of sizes are those of the pipeline or of this loop."""
    found: dict[str, _Carried] = {}
    for one in expr.carried:
        written = read_type(one.type, body.file, body.problems)
        type = rename_dims(written, lambda variable: _size(inner, variable))
        start = _start(body, one, type, checks)
        if one.name.text in found:
            first = found[one.name.text].written.name
            given_twice(one.name.text, one.name.span, first.span, body.problems)
            continue
        param = Value(inner.settle(type), one.name.text, one.name.span)
        found[one.name.text] = _Carried(one, type, start, param)
    if not found:
        body.problems.error(
            "HR330",
            "a loop carries something from turn to turn",
            expr.span,
            "nothing is carried",
            help="name it with its type and where it starts: `loop (n: i64 = 0) max ...`",
        )
    return list(found.values())


def _start(body: Body, one: ast.Carried, type: Type, checks: list[Check]) -> Single:
    if not is_zeros(one.init) or body.scope.local(ZEROS) is not None:
        return _fitted(body, one.init, type, one, checks)
    known = zeros_of(one.init, body.resolve(type), one.name.text, "HR332", body.problems)
    return BROKEN if known is None else known


def _size(inner: Body, variable: DimVar) -> Dim:
    known = inner.scope.size(variable.name)
    if known is None:
        known = inner.scope.sizes[variable.name] = inner.dims.flexible(variable.name)
    return known


def _fitted(
    body: Body, expr: ast.Expr, type: Type, carried: ast.Carried, checks: list[Check]
) -> Single:
    """Lower a value that is carried and compare it with the type that was written.

    What is assumed of its sizes is added to `checks`.
    """
    name = carried.name.text
    operand = collapsed(body.evaluate(expr, (name,)))
    single = body.single(expr) if isinstance(operand, Record) else operand
    try:
        single = adapt(body, single, type, expr.span)
    except LiteralError as error:
        message = f"`{name}` is carried as {carried.type.span.text}, but {error}"
        body.problems.error("HR332", message, expr.span)
        return BROKEN
    clash = compare(single.type, type, body.dims)
    if clash is not None:
        report_mismatch(
            body,
            expr,
            single.type,
            body.resolve(type),
            f"`{name}` is carried as {carried.type.span.text} in every turn",
            code="HR332",
            notes=("a size that changes from turn to turn is written `_`",)
            if clash is Clash.DIMS and any(type_dims(type))
            else (),
        )
        return BROKEN
    checks += _assumed(body, name, single.type, type)
    if not isinstance(single, Known):
        return single
    if isinstance(type, OptionalType):
        return Known(single.literal, body.settle(type))
    return solid(single)


def _assumed(body: Body, name: str, found: Type, wanted: Type) -> list[Check]:
    """Return what has just been assumed of sizes, each said of the dimension that it is of."""
    pairs = compare_form(found, wanted)
    assert not isinstance(pairs, Clash)  # they have been compared
    sizes = [tuple(map(body.dims.resolve, pair)) for pair in pairs]
    checks: list[Check] = []
    for check in body.take_checks():
        axis = [set(pair) for pair in sizes].index({check.left, check.right})
        text = f"dimension {axis} of {name} == {sizes[axis][1]}"
        checks.append(replace(check, text=text))
    return checks


def _length(block: ast.Block) -> int:
    """Return how many statements stand before `next` and `stop when` at the end."""
    statements = block.statements
    count = len(statements)
    if count and isinstance(statements[count - 1], ast.StopWhen):
        count -= 1
    if count and isinstance(statements[count - 1], ast.Next):
        count -= 1
    return count


def _ends(inner: Body, expr: ast.Loop) -> tuple[ast.Next | None, ast.StopWhen | None]:
    ending = expr.body.statements[_length(expr.body) :]
    following = next((one for one in ending if isinstance(one, ast.Next)), None)
    stop = next((one for one in ending if isinstance(one, ast.StopWhen)), None)
    before = expr.body.statements[: _length(expr.body)]
    if following is None and not any(isinstance(one, ast.Next) for one in before):
        listed = ", ".join(f"{one.name.text} = ..." for one in expr.carried)
        inner.problems.error(
            "HR330",
            "nothing says what the next turn starts with",
            expr.span,
            "no `next`",
            help=f"end the block with `next {listed}`",
        )
    return following, stop


def _next(
    inner: Body, carried: Sequence[_Carried], statement: ast.Next, checks: list[Check]
) -> dict[str, Single]:
    """Return the values of the next turn by name; what is missing or too much is a mistake."""
    known = {one.name: one for one in carried}
    given: dict[str, Single] = {}
    places: dict[str, Span] = {}
    for binding in statement.fields:
        name = binding.name.text if binding.name is not None else None
        if name is None and len(carried) == 1:
            name = carried[0].name
        if name is None or name not in known:
            inner.evaluate(binding.value)
            inner.problems.error(
                "HR331",
                f"the loop does not carry `{name}`" if name else "`next` names what it sets",
                (binding.name or binding).span,
                help=did_you_mean(name, known) if name else None,
            )
        elif name in given:
            inner.evaluate(binding.value)
            given_twice(name, (binding.name or binding).span, places[name], inner.problems)
        else:
            one = known[name]
            given[name] = _fitted(inner, binding.value, one.type, one.written, checks)
            places[name] = (binding.name or binding).span
    missing = [name for name in known if name not in given]
    meant = len(statement.fields) > len(given)  # most likely by a wrong name, which has been said
    if missing and not meant:
        listed = ", ".join(f"`{name}`" for name in missing)
        inner.problems.error(
            "HR331",
            f"`next` does not set {listed}",
            statement.span,
            secondary=tuple(Label(known[name].written.span, "carried here") for name in missing),
            help=f"add {', '.join(f'`{name} = {name}`' for name in missing)} if it stays as it is",
        )
    return given


def _region(
    inner: Body,
    carried: Sequence[_Carried],
    given: dict[str, Single],
    test: Single | None,
    stop: ast.StopWhen | None,
    checks: tuple[Check, ...],
) -> tuple[Region, tuple[Check, ...]]:
    """Return the region, and those of the `checks` that no stage in it can make."""
    results = [inner.value(given[one.name], one.written.span, one.name) for one in carried]
    stages = [i for i, node in enumerate(inner.nodes) if not isinstance(node.kind, Constant)]
    if checks and stages:
        node = inner.nodes[stages[-1]]
        inner.nodes[stages[-1]] = replace(node, checks=(*node.checks, *checks))
        checks = ()
    if test is not None and stop is not None:
        results.append(inner.value(test, stop.condition.span, "stop"))
    params = tuple(one.param for one in carried)
    return Region(params, tuple(inner.nodes), tuple(results)), checks
