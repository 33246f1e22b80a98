"""`for`: its block becomes a region that runs for each item."""

from collections.abc import Sequence
from dataclasses import replace

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.source import Span
from ...dsl.types import (
    ANY_DIM,
    UNKNOWN,
    Dim,
    ListType,
    OptionalType,
    TensorType,
    Type,
)
from ..dimensions import map_dims
from ..graph import Check, For, Region, Value
from .body import Body
from .emits import no_emit_in_for
from .mismatch import absent_help, made_here, named
from .operands import BROKEN, Broken, Made, Operand, Record, Single
from .ops import output_names
from .statements import condition, lower_statement, named_fields


def lower_for(body: Body, expr: ast.For, names: tuple[str, ...]) -> Operand:
    sources = _sources(body, expr)
    items = _items(body, sources)
    inner = no_emit_in_for(body.inside())
    mark = body.dims.mark
    targets = _targets(body, expr, len(items))
    params = tuple(
        Value(inner.settle(item), _target_name(target), target.span)
        for item, target in zip(items, targets, strict=True)
    )
    for target, param in zip(targets, params, strict=True):
        if isinstance(target, ast.Ident):
            operand = Made(param) if param.type != UNKNOWN else BROKEN
            inner.scope.give(target.text, operand, target.span, body.problems)
    for target in expr.targets[len(targets) :]:
        if isinstance(target, ast.Ident):  # one too many, which has been said
            inner.scope.give(target.text, BROKEN, target.span, body.problems)
    for statement in expr.body.statements[:-1]:
        lower_statement(inner, statement)
    last = expr.body.statements[-1] if expr.body.statements else None
    if not isinstance(last, ast.Yield):
        _report_no_yield(inner, expr, last)
        return BROKEN
    fields = named_fields(inner, last.fields, "")
    results = [
        (name, inner.single(one.value, (name,) if name else ()), one.value.span)
        for name, one in fields
    ]
    keep = None if last.when is None else condition(inner, last.when, "when")
    inner.scope.close(body.problems)
    broken = [single for _, single, _ in results if isinstance(single, Broken)]
    if broken or not results or keep == BROKEN or any(p.type == UNKNOWN for p in params):
        return Record(tuple((n, BROKEN) for n, _, _ in results)) if results[1:] else BROKEN
    region = _region(inner, params, results, keep, last)
    return _add_for(
        body, expr, sources, region, [n for n, _, _ in results], keep is not None, mark, names
    )


def _add_for(
    body: Body,
    expr: ast.For,
    sources: Sequence[tuple[ast.Expr, Single]],
    region: Region,
    fields: list[str],
    filtered: bool,
    mark: int,
    names: tuple[str, ...],
) -> Operand:
    count, checks = _count(body, sources)
    if filtered or count is None:
        count = body.dims.fresh("n")
    values = region.results[: len(fields)]
    types = tuple(_gathered(body, value.type, count, mark) for value in values)
    inputs = tuple(body.value(single, source.span, "items") for source, single in sources)
    labels = output_names("for", fields, names) if fields != [""] else (names or ("for",))[:1]
    outputs = body.add(
        For(filtered), inputs, types, expr.span, "for", labels, regions=(region,), checks=checks
    )
    if fields == [""]:
        return Made(outputs[0])
    return Record(tuple(zip(fields, map(Made, outputs), strict=True)))


def _sources(body: Body, expr: ast.For) -> list[tuple[ast.Expr, Single]]:
    """Lower what is walked: one list, or those of `zip(xs, ys)`."""
    walked = expr.iterable
    zipped = (
        isinstance(walked, ast.Call)
        and isinstance(walked.callee, ast.Name)
        and walked.callee.text == "zip"
        and body.scope.find("zip") is None
    )
    if not zipped or not isinstance(walked, ast.Call):
        return [(walked, body.single(walked))]
    for argument in walked.arguments:
        if argument.name is not None:
            body.problems.error(
                "HR107", f"`zip` has no parameter `{argument.name.text}`", argument.name.span
            )
    return [(one.value, body.single(one.value)) for one in walked.arguments]


def _targets(body: Body, expr: ast.For, count: int) -> tuple[ast.Ident | ast.Wildcard, ...]:
    targets = expr.targets
    if len(targets) == count:
        return targets
    body.problems.error(
        "HR210",
        f"{len(targets)} name{'s' * (len(targets) != 1)} for {count} list{'s' * (count != 1)}",
        targets[min(len(targets) - 1, count)].span,
        secondary=(Label(expr.iterable.span, f"{count} list{'s' * (count != 1)}"),),
        help="walk several side by side with `zip(xs, ys)`" if len(targets) > count else None,
    )
    padding = (ast.Wildcard(span=expr.span),) * count
    return (*targets, *padding)[:count]


def _items(body: Body, sources: Sequence[tuple[ast.Expr, Single]]) -> list[Type]:
    items: list[Type] = []
    for expr, single in sources:
        match body.resolve(single.type):
            case ListType(item=item):
                items.append(item)
            case TensorType(dtype, dims) if dims:
                items.append(TensorType(dtype, dims[1:]))
            case type:
                if type != UNKNOWN:
                    code = "HR223" if isinstance(type, OptionalType) else "HR207"
                    body.problems.error(
                        code,
                        f"`for` walks a list or a tensor with an axis, but {named(expr)} is {type}",
                        expr.span,
                        secondary=made_here(body, expr),
                        help=absent_help(type) if isinstance(type, OptionalType) else None,
                    )
                items.append(UNKNOWN)
    return items


def _count(
    body: Body, sources: Sequence[tuple[ast.Expr, Single]]
) -> tuple[Dim | None, tuple[Check, ...]]:
    """Return how many items are walked, None when no type says it, and what is to be checked.

    Lists tell their length only when they are there, and are then compared by the loop itself.
    """
    tensors = [(e, s.type.dims[0]) for e, s in sources if isinstance(s.type, TensorType)]
    if not tensors:
        return None, ()
    (first, count), *others = tensors
    checks: list[Check] = []
    for expr, length in others:
        if not body.dims.unify(count, length):
            count, length = body.dims.resolve(count), body.dims.resolve(length)
            body.problems.error(
                "HR204",
                f"lists walked side by side are of one length: this has {length}, not {count}",
                expr.span,
                secondary=(Label(first.span, f"{count} items"),),
            )
        text = f"len({first.span.text}) == len({expr.span.text})"
        checks += [replace(check, text=text) for check in body.take_checks()]
    return count, tuple(checks)


def _region(
    inner: Body,
    params: tuple[Value, ...],
    results: Sequence[tuple[str, Single, Span]],
    keep: Single | None,
    last: ast.Yield,
) -> Region:
    values = [inner.value(single, span, name or "item") for name, single, span in results]
    if keep is not None and last.when is not None:
        values.append(inner.value(keep, last.when.span, "when"))
    return Region(params, tuple(inner.nodes), tuple(values))


def _gathered(body: Body, item: Type, count: Dim, mark: int) -> Type:
    """Return the type of gathered items: a tensor where all are sure to have one shape.

    Sizes that are made anew for each item may differ among them.
    """
    item = body.resolve(item)
    match item:
        case TensorType(dtype, dims) if not any(body.dims.is_new(dim, mark) for dim in dims):
            return TensorType(dtype, (body.dims.settle(count), *dims))
        case _:
            pass

    def loose(dim: Dim) -> Dim:
        return ANY_DIM if body.dims.is_new(dim, mark) else dim

    return ListType(map_dims(item, loose))


def _report_no_yield(inner: Body, expr: ast.For, last: ast.Statement | None) -> None:
    if last is not None:
        lower_statement(inner, last)
    if isinstance(last, ast.Emit | ast.Return):
        return  # it cannot stand there, which has been said
    code = last.value.span.text if isinstance(last, ast.Result) else ""
    inner.problems.error(
        "HR319",
        "a `for` ends with `yield`, which says what each item gives",
        (last or expr.body).span,
        help=f"write `yield {code}`" if code and "\n" not in code else None,
    )


def _target_name(target: ast.Ident | ast.Wildcard) -> str:
    return target.text if isinstance(target, ast.Ident) else "_"
