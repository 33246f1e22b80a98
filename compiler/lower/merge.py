"""The arms of `if`, `match` and early `return` become one: the same fields, the same types."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...dsl.diagnostic import Label
from ...dsl.source import Span
from ...dsl.types import UNKNOWN, ListType, TensorType, Type
from ..graph import Kind, Region, Value
from .agree import adapt, join
from .body import Body
from .literals import LiteralError, solid, typed
from .operands import BROKEN, Broken, Known, Made, Operand, Record, Single
from .ops import output_names


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm: the region it was lowered in, what it gives, and where that is written."""

    body: Body
    operand: Operand
    span: Span


def merge(
    body: Body,
    kind: Kind,
    inputs: tuple[Value, ...],
    arms: Sequence[ArmResult],
    span: Span,
    stage: str,
    names: tuple[str, ...],
) -> Operand:
    """Add the node of a branch whose arms have been lowered and return what it gives."""
    operands = [_collapsed(arm.operand, arms) for arm in arms]
    if any(isinstance(operand, Broken) for operand in operands):
        return BROKEN
    fields = _fields(operands[0])
    for arm, operand in zip(arms, operands, strict=True):
        if [name for name, _ in _fields(operand)] != [name for name, _ in fields]:
            return _disagree(body, arms[0], arm, _described(operands[0]), _described(operand))
    columns = [[_fields(operand)[i][1] for operand in operands] for i in range(len(fields))]
    rows: list[list[Value]] = [[] for _ in arms]
    types: list[Type] = []
    broken = False
    for column in columns:
        type = _join_column(body, arms, column)
        if type is None:
            broken = True
            continue
        types.append(type)
        for row, arm, single in zip(rows, arms, column, strict=True):
            row.append(arm.body.value(single, arm.span))
    if broken:
        return BROKEN
    regions = tuple(
        Region((), tuple(arm.body.nodes), tuple(row)) for arm, row in zip(arms, rows, strict=True)
    )
    results = [name for name, _ in fields]
    labels = output_names(stage, results, names) if results != [""] else (names or (stage,))[:1]
    outputs = body.add(kind, inputs, tuple(types), span, stage, labels, regions=regions)
    if results == [""]:
        return Made(outputs[0])
    return Record(tuple(zip(results, map(Made, outputs), strict=True)))


def _collapsed(operand: Operand, arms: Sequence[ArmResult]) -> Operand:
    """Take the field of a record with one field, unless all arms call it the same."""
    if not isinstance(operand, Record) or len(operand.fields) != 1:
        if isinstance(operand, Record) and BROKEN in [single for _, single in operand.fields]:
            return BROKEN
        return operand
    names = {arm.operand.names if isinstance(arm.operand, Record) else () for arm in arms}
    single = operand.fields[0][1]
    return single if len(names) > 1 or isinstance(single, Broken) else operand


def _fields(operand: Operand) -> tuple[tuple[str, Single], ...]:
    return operand.fields if isinstance(operand, Record) else (("", operand),)


def _described(operand: Operand) -> str:
    if isinstance(operand, Record):
        return f"({', '.join(operand.names)})"
    return str(operand.type)


def _join_column(body: Body, arms: Sequence[ArmResult], column: list[Single]) -> Type | None:
    """Bring one result of all arms to one type, changing `column`; None when there is none."""
    _settle_literals(body, arms, column)
    as_list = next((one.type for one in column if isinstance(one.type, ListType)), None)
    if as_list is not None:
        for i, (arm, single) in enumerate(zip(arms, column, strict=True)):
            if isinstance(single.type, TensorType):
                column[i] = adapt(arm.body, single, as_list, arm.span)
    type = column[0].type
    for arm, single in zip(arms[1:], column[1:], strict=True):
        joined = join(type, single.type, body.dims)
        if joined is None:
            shown = str(body.resolve(type)), str(body.resolve(single.type))
            _disagree(body, arms[0], arm, *shown)
            return None
        type = joined
    return None if type == UNKNOWN else type


def _settle_literals(body: Body, arms: Sequence[ArmResult], column: list[Single]) -> None:
    """Give number literals the dtype of the other arms."""
    strong = [one for one in column if not (isinstance(one, Known) and one.weak)]
    wanted = strong[0].type if strong else _widest(column)
    for i, (arm, single) in enumerate(zip(arms, column, strict=True)):
        if not isinstance(single, Known):
            continue
        like = wanted
        if isinstance(wanted, TensorType) and isinstance(single.type, TensorType):
            like = TensorType(wanted.dtype, single.type.dims)
        try:
            column[i] = solid(typed(single, like))
        except LiteralError as error:
            body.problems.error("HR216", f"the other arm is {wanted}, but {error}", arm.span)
            column[i] = BROKEN


def _widest(column: list[Single]) -> Type:
    """Return the type of number literals together: floating point if any of them is."""
    for single in column:
        if isinstance(single.type, TensorType) and single.type.dtype.is_float:
            return single.type
    return column[0].type


def _disagree(body: Body, first: ArmResult, other: ArmResult, left: str, right: str) -> Operand:
    body.problems.error(
        "HR205",
        f"both arms must give the same type: one gives {left}, this gives {right}",
        other.span,
        right,
        secondary=(Label(first.span, left),),
    )
    return BROKEN
