"""Statements of a block: names get their values, and the last statement says what comes out."""

from collections.abc import Sequence

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.types import UNKNOWN, DType, TensorType
from .body import Body
from .mismatch import made_here, named
from .operands import BROKEN, Broken, Operand, Record, Single, singles
from .type_expressions import given_twice


def lower_block(
    body: Body, block: ast.Block | ast.Expr, names: tuple[str, ...] = (), *, wanted: bool = True
) -> Operand:
    """Lower a block whose last statement is its value, in a region of its own.

    Without `wanted` it is lowered for what it emits and gives nothing.
    """
    if not wanted:
        return _performed(body, block)
    if not isinstance(block, ast.Block):
        return body.evaluate(block, names)
    for statement in block.statements[:-1]:
        lower_statement(body, statement)
    operand: Operand = BROKEN
    last = block.statements[-1] if block.statements else None
    if isinstance(last, ast.Result):
        operand = body.evaluate(last.value, names)
    else:
        errors = body.problems.errors
        if last is not None:
            lower_statement(body, last)
        if isinstance(last, ast.Emit) and body.problems.errors == errors:
            operand = Record(())
        if last is None or isinstance(last, ast.Assign):
            body.problems.error(
                "HR314",
                "a block here has a value: its last line",
                (last or block).span,
                "the block ends without one",
                help=f"end it with `{last.targets[0].text}`"
                if last is not None and isinstance(last.targets[0], ast.Ident)
                else None,
            )
    body.scope.close(body.problems)
    return operand


def _performed(body: Body, block: ast.Block | ast.Expr) -> Operand:
    errors = body.problems.errors
    if isinstance(block, ast.Block):
        for statement in block.statements:
            lower_statement(body, statement)
    else:
        body.perform(block)
    body.scope.close(body.problems)
    return Record(()) if body.problems.errors == errors else BROKEN


def lower_statement(body: Body, statement: ast.Statement) -> None:
    """Lower a statement that is not the last one of its block."""
    match statement:
        case ast.Assign():
            _assign(body, statement)
        case ast.State(span=span):
            body.problems.error(
                "HR340",
                "a state is declared in the own block of a pipeline that is `per sequence`",
                span,
            )
        case ast.Emit():
            body.emit_with(body, statement)
        case ast.Next(span=span):
            for binding in statement.fields:
                body.evaluate(binding.value)
            body.problems.error(
                "HR334",
                "`next` ends the block of a `loop`, or stands in the own block of a pipeline "
                "that is `per sequence`",
                span,
                help="give the inner block a value, and name that in the `next` at the end",
            )
        case ast.StopWhen(span=span):
            body.evaluate(statement.condition)
            body.problems.error(
                "HR334", "`stop when` follows the `next` of a `loop`, and stands nowhere else", span
            )
        case ast.Yield(span=span):
            body.problems.error(
                "HR320", "`yield` is the last statement of a `for`, and stands nowhere else", span
            )
            _misplaced(body, statement.fields, statement.when)
        case ast.Return(span=span):
            body.problems.error(
                "HR320",
                "`return` belongs to a pipeline's or function's own block, not to one inside it",
                span,
                help="give the inner block a value and return that, or write `return ... when ...`",
            )
            _misplaced(body, statement.fields, statement.when)
        case ast.Result():
            body.perform(statement.value)


def condition(body: Body, expr: ast.Expr, what: str) -> Single:
    """Lower a condition, which is one bool."""
    single = body.single(expr)
    type = body.resolve(single.type)
    if type == UNKNOWN or type == TensorType(DType.BOOL):
        return single
    help = None
    if isinstance(type, TensorType) and type.dtype is DType.BOOL:
        text = expr.span.text
        help = f"make one of them: `all({text})`, or `any({text})`"
    body.problems.error(
        "HR206",
        f"the condition of `{what}` is a bool, but {named(expr)} is {type}",
        expr.span,
        secondary=made_here(body, expr),
        help=help,
    )
    return BROKEN


def named_fields(
    body: Body, bindings: Sequence[ast.Binding], default: str | None
) -> list[tuple[str, ast.Binding]]:
    """Return the fields of a `yield` or `return` with their names; reports a name given twice.

    A single field without a name is called `default`.
    """
    found: dict[str, ast.Binding] = {}
    for binding in bindings:
        if binding.name is None:
            if len(bindings) > 1 or default is None:
                body.problems.error(
                    "HR211",
                    "each of several results needs a name",
                    binding.span,
                    help=f"write `name = {binding.span.text}`",
                )
                body.evaluate(binding.value)
                continue
            found[default] = binding
        elif binding.name.text in found:
            first = found[binding.name.text]
            name = binding.name
            given_twice(name.text, name.span, (first.name or first).span, body.problems)
            body.evaluate(binding.value)
        else:
            found[binding.name.text] = binding
    return list(found.items())


def _misplaced(body: Body, fields: tuple[ast.Binding, ...], when: ast.Expr | None) -> None:
    """Find the mistakes within a statement that stands where it may not, and cause no others."""
    for binding in fields:
        body.evaluate(binding.value)
        name = binding.name
        if name is not None and body.scope.local(name.text) is None:
            body.scope.give(name.text, BROKEN, name.span, body.problems)
            body.scope.find(name.text)
    if when is not None:
        body.evaluate(when)


def _assign(body: Body, statement: ast.Assign) -> None:
    targets = statement.targets
    names = tuple(t.text if isinstance(t, ast.Ident) else "_" for t in targets)
    operand = body.evaluate(statement.value, names)
    if len(targets) == 1:
        _give(body, targets[0], operand)
        return
    if isinstance(operand, Broken):
        parts: tuple[Operand, ...] = (BROKEN,) * len(targets)
    else:
        parts = singles(operand)
        if len(parts) != len(targets):
            _report_count(body, statement, operand)
            parts = (BROKEN,) * len(targets)
    for target, part in zip(targets, parts, strict=True):
        _give(body, target, part)


def _give(body: Body, target: ast.Ident | ast.Wildcard, operand: Operand) -> None:
    if isinstance(target, ast.Ident):
        body.scope.give(target.text, operand, target.span, body.problems)


def _report_count(body: Body, statement: ast.Assign, operand: Operand) -> None:
    count = len(statement.targets)
    has = len(singles(operand))
    listed = ", ".join(f"`{name}`" for name in operand.names) if isinstance(operand, Record) else ""
    value = statement.value
    body.problems.error(
        "HR210",
        f"{count} names, but {has} value{'s' * (has != 1)} to unpack" + (f": {listed}" * (has > 1)),
        statement.targets[min(has, count - 1)].span,
        secondary=(Label(value.span, f"{has} value{'s' * (has != 1)}"),),
        help="write `_` for each value that is not wanted" if has > count else None,
    )
