"""Calls of stdlib ops: the shape rule is asked, a node is added."""

import re
from collections.abc import Sequence
from typing import cast

import numpy as np

from ...dsl import ast
from ...dsl.source import Span
from ...dsl.types import ANY_DIM, Dim, DType, ListType, TensorType, Type
from ...stdlib.op import Argument, Literal, Op, OpTypeError
from ...stdlib.op import Param as OpParam
from ..dimensions import map_dims
from ..graph import OpCall, Value
from .agree import adapt, stacked
from .arguments import Slot, bind
from .body import Body
from .literals import LiteralError, typed
from .mismatch import made_here
from .operands import (
    BROKEN,
    NOTHING,
    TEXT,
    Broken,
    Known,
    Made,
    Operand,
    Record,
    Single,
    weak_number,
)

# What these do with a list they do not do with the tensor of its items.
LIST_OPS = ("core.len", "core.getitem", "core.stack", "core.unstack", "core.list")


def stage_of(op: Op) -> str:
    """Return what a stage that runs an op is called: `image.warp`, `cast`."""
    return op.name.removeprefix("core.")


def signature_of(op: Op) -> str:
    """Write an op's parameters as a call would: `(image, max_side = 960)`."""
    parts = [f"{param.name}..." if param.variadic else _with_default(param) for param in op.params]
    return f"({', '.join(parts)})"


def lower_op(body: Body, call: ast.Call, op: Op, callee: str, names: tuple[str, ...]) -> Operand:
    """Lower a call of an op; `callee` is how it is written."""
    slots = [
        Slot(p.name, not p.has_default and not p.variadic, p.variadic, p.keyword) for p in op.params
    ]
    bound = bind(call, callee, slots, signature_of(op), body.problems)
    singles = {id(one): body.single(one.value) for one in call.arguments}
    inputs: list[Single] = []
    given: dict[str, list[ast.Expr]] = {}
    sound = bound.complete
    for param, arguments in zip(op.params, bound.arguments, strict=True):
        given[param.name] = [one.value for one in arguments]
        values = [singles[id(one)] for one in arguments]
        if param.constant:
            for single, expr in zip(values, given[param.name], strict=True):
                sound &= _require_known(body, single, expr, callee, param)
            values = [plain(single) for single in values]
        if not arguments and param.has_default:
            values = [default_of(param)]
        inputs += values
    if not sound:
        return broken_results(op)
    try:
        if op.name == "core.cast":
            inputs = _converted(inputs)
        return apply_op(body, op, inputs, call.span, names)
    except LiteralError as error:
        body.problems.error("HR216", f"{error}", call.span)
        return broken_results(op)
    except OpTypeError as error:
        _report(body, call, callee, given, error)
        return broken_results(op)


def apply_op(
    body: Body, op: Op, inputs: Sequence[Single], span: Span, names: tuple[str, ...] = ()
) -> Operand:
    """Add a node that runs an op; raises OpTypeError when its shape rule refuses the inputs."""
    if any(isinstance(single, Broken) for single in inputs):
        return broken_results(op)
    if op.name == "core.concat":
        inputs = _joined(body, inputs, span)
    if op.name == "core.stack" and (stack := _stacked(body, inputs, span)) is not None:
        return record(op.results, (stack,))
    mark = body.dims.mark
    found = op.types([_argument(body, single) for single in inputs], body.dims)
    if op.name not in LIST_OPS and not any(isinstance(type, ListType) for type in found):
        as_tensors = [_as_tensor(body, single, span) for single in inputs]
        if as_tensors != list(inputs):
            inputs = as_tensors
            body.dims.take_assumptions()
            found = op.types([_argument(body, single) for single in inputs], body.dims)
    types = tuple(_of_result(body, type, mark) for type in found)
    checks = body.take_checks()
    values = tuple(
        single.value if isinstance(single, Made) else body.constant(single, span, name)
        for single, name in zip(inputs, _input_names(op, len(inputs)), strict=True)
        if not isinstance(single, Broken)
    )
    stage = stage_of(op)
    outputs = body.add(
        OpCall(op),
        values,
        types,
        span,
        stage,
        output_names(stage, op.results, names),
        checks=checks,
    )
    return record(op.results, tuple(map(Made, outputs)))


def _joined(body: Body, inputs: Sequence[Single], span: Span) -> Sequence[Single]:
    """Make lists of all that is joined with a list whose items differ, and so are no tensor."""
    along, *parts = inputs
    lists = [one.type for one in parts if isinstance(one, Made) and isinstance(one.type, ListType)]
    if not any(_differ(body, one.item) for one in lists):
        return inputs
    wanted = ListType(lists[0].item)
    adapted = [adapt(body, one, wanted, span) for one in parts]
    return [along, *(Made(body.value(one, span)) for one in adapted)]


def _stacked(body: Body, inputs: Sequence[Single], span: Span) -> Made | None:
    """Return one list along a new first axis, where its type says what none of its items are."""
    along, *parts = inputs
    match parts:
        case [Made(value=Value(type=ListType(item=TensorType() as item) as found)) as part]:
            first = isinstance(along, Known) and along.literal == 0
            alike = first and not _differ(body, item)
            return Made(stacked(body, found, part, span)) if alike else None
        case _:
            return None


def _differ(body: Body, item: Type) -> bool:
    return not isinstance(item, TensorType) or ANY_DIM in map(body.dims.resolve, item.dims)


def _as_tensor(body: Body, single: Single, span: Span) -> Single:
    match single:
        case Made(value=Value(type=ListType(item=TensorType()) as found)):
            return Made(stacked(body, found, single, span))
        case _:
            return single


def _converted(inputs: list[Single]) -> list[Single]:
    """Give a number that is converted the dtype at once; raises LiteralError if it does not fit.

    One with a fraction that becomes an integer is left to the op, which cuts the fraction off.
    """
    number, wanted = inputs
    if not isinstance(number, Known) or not number.weak or not isinstance(wanted, Known):
        return inputs
    dtype, type = wanted.literal, number.type
    if not isinstance(dtype, DType) or not dtype.is_number or not isinstance(type, TensorType):
        return inputs
    if type.dtype.is_float and not dtype.is_float:
        return inputs
    return [typed(number, TensorType(dtype, type.dims)), wanted]


def default_of(param: OpParam) -> Known:
    """Return the default of an op's parameter as it is handed to the op."""
    return of_literal(param.default)


def of_literal(literal: Literal) -> Known:
    match literal:
        case None:
            return Known(None, NOTHING)
        case bool():
            return Known(literal, TensorType(DType.BOOL))
        case int() | float():
            return weak_number(literal)
        case tuple():
            inner = of_literal(literal[0]) if literal else weak_number(0)
            dims: tuple[Dim, ...] = (len(literal),)
            if isinstance(inner.type, TensorType):
                return Known(literal, TensorType(inner.type.dtype, dims + inner.type.dims), True)
            return Known(literal, TEXT)
        case _:
            return Known(literal, TEXT)  # strings, and dtypes, which only a rule looks at


def plain(single: Single) -> Single:
    """Return a literal as Python values: what decides types and shapes needs no dtype."""
    if not isinstance(single, Known) or not isinstance(single.literal, np.ndarray):
        return single
    return Known(_tuples(single.literal.tolist()), single.type)


def record(names: Sequence[str], singles: Sequence[Single]) -> Record:
    return Record(tuple(zip(names, singles, strict=True)))


def broken_results(op: Op) -> Record:
    return record(op.results, [BROKEN] * len(op.results))


def output_names(stage: str, results: Sequence[str], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what outputs are called: as the source does, else after the stage."""
    if len(names) == len(results):
        return names
    if len(results) == 1:
        return (stage,)
    before = names[0] if len(names) == 1 else stage
    return tuple(f"{before}.{result}" for result in results)


def in_terms_of_arguments(text: str, given: dict[str, list[ast.Expr]]) -> str:
    """Write code in a help (`cast(x, f32)`) with the arguments in place of the parameters."""

    def replace(code: re.Match[str]) -> str:
        def argument(name: re.Match[str]) -> str:
            exprs = given.get(name[0], [])
            return exprs[0].span.text if len(exprs) == 1 else name[0]

        return re.sub(r"\b\w+\b(?!\()", argument, code[0])

    return re.sub(r"`[^`]*`", replace, text)


def _input_names(op: Op, count: int) -> list[str]:
    """Return the parameter of each input; a variadic one has as many as are left."""
    names = [param.name for param in op.params if not param.variadic]
    rest = next((param.name for param in op.params if param.variadic), "")
    return names + [rest] * (count - len(names))


def _argument(body: Body, single: Single) -> Argument:
    if isinstance(single, Known):
        return Argument(single.type, True, single.literal)
    return Argument(body.resolve(single.type))


def _of_result(body: Body, type: Type, mark: int) -> Type:
    """Settle a result type; sizes that are new in the items of a list may differ among them."""

    def loose(dim: Dim) -> Dim:
        return ANY_DIM if body.dims.is_new(dim, mark) else dim

    if isinstance(type, ListType):
        type = ListType(map_dims(type.item, loose), type.maximum)
    return body.settle(type)


def _require_known(body: Body, single: Single, expr: ast.Expr, callee: str, param: OpParam) -> bool:
    if not isinstance(single, Made):
        return True
    body.problems.error(
        "HR219",
        f"`{param.name}` of `{callee}` must be known when compiling",
        expr.span,
        "made when the pipeline runs",
        secondary=made_here(body, expr),
        notes=(f"`{param.name}`: {param.doc}",),
    )
    return False


def _report(
    body: Body,
    call: ast.Call,
    callee: str,
    given: dict[str, list[ast.Expr]],
    error: OpTypeError,
) -> None:
    exprs = given.get(error.parameter or "", [])
    expr: ast.Expr = exprs[0] if len(exprs) == 1 else call
    about = (
        f"`{callee}` wants `{error.parameter}` to be" if error.parameter else f"`{callee}` wants"
    )
    body.problems.error(
        "HR218",
        f"{about} {error.wants}",
        expr.span,
        secondary=made_here(body, expr) if expr is not call else (),
        help=in_terms_of_arguments(error.help, given) if error.help else None,
    )


def _tuples(value: object) -> Literal:
    if isinstance(value, list):
        return tuple(_tuples(one) for one in cast("list[object]", value))  # as `tolist` gives
    return cast("bool | int | float | str | bytes", value)  # what arrays of our dtypes hold


def _with_default(param: OpParam) -> str:
    if not param.has_default:
        return param.name
    shown = f'"{param.default}"' if isinstance(param.default, str) else _shown(param.default)
    return f"{param.name} = {shown}"


def _shown(literal: Literal) -> str:
    match literal:
        case None:
            return "none"
        case bool():
            return str(literal).lower()
        case DType():
            return literal.value
        case tuple():
            return f"[{', '.join(map(_shown, literal))}]"
        case _:
            return str(literal)
