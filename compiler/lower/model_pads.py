"""`pads L with (ids = 0, mask = 0)`: which rows of different size may share a run of a model.

The dimension stands by itself in the inputs that have it; each of those has a batch axis and a
value to fill it up with. Where a result has it, its size follows from those of the inputs.
"""

from ...dsl import ast
from ...dsl.linear import variables
from ...dsl.source import Span
from ...dsl.types import DimVar, DType, Field, TensorType
from ...stdlib.op import Literal
from ..dimensions import type_dims
from ..graph import ModelDef, Pads
from .agree import bare
from .literals import LiteralError, scalar, typed
from .operands import Known
from .problems import Problems, did_you_mean


def read_pads(item: ast.Model, model: ModelDef, problems: Problems) -> tuple[Pads, ...]:
    """Return what `pads` declares of a model, without what is wrong: that is reported."""
    found: dict[DimVar, Pads] = {}
    for pads in item.pads:
        dim = _dim(pads, model, problems)
        if dim is None:
            continue
        if dim in found:
            problems.error("HR346", f"`pads {dim}` is declared twice", pads.dim.span)
            continue
        found[dim] = Pads(dim, _fill(pads, dim, model, problems))
    return tuple(found.values())


def _dim(pads: ast.Pads, model: ModelDef, problems: Problems) -> DimVar | None:
    """Return the dimension; None after a mistake."""
    name, span, fields = pads.dim.text, pads.dim.span, model.signature.params
    dims = [dim for field in fields for dim in type_dims(field.type)]
    taken = {dim.name: dim for dim in dims if isinstance(dim, DimVar)}
    dim = taken.get(name)
    if dim is None:
        problems.error(
            "HR346",
            f"`{name}` is no dimension of an input of `{model.name}`",
            span,
            notes=(f"`{model.name}` is {model.signature}",),
            help=did_you_mean(name, taken),
        )
        return None
    for field, axis in zip(fields, model.input_axes, strict=True):
        reason = _obstacle(field, axis, dim)
        if reason is not None:
            problems.error("HR346", f"`{field.name}` cannot be padded: {reason}", span)
            return None
    known = {one for field in fields for size in type_dims(field.type) for one in variables(size)}
    for field in model.signature.results:
        for size in type_dims(field.type):
            names = variables(size)
            if dim not in names or (names <= known and isinstance(bare(field.type), TensorType)):
                continue
            why = f"no input tells what `{size}` is" if not names <= known else "it is a list"
            problems.error("HR346", f"`{field.name}` cannot be cut back: {why}", span)
            return None
    return dim


def _obstacle(field: Field, axis: int | None, dim: DimVar) -> str | None:
    sizes = list(type_dims(field.type))
    if dim in sizes and not isinstance(bare(field.type), TensorType):
        return "it is a list"
    if any(dim in variables(size) and size != dim for size in sizes):
        return f"its size is computed from `{dim}`"
    if dim in sizes and axis is None:
        return f"it has `{dim}` and no batch axis"
    return None


def _fill(pads: ast.Pads, dim: DimVar, model: ModelDef, problems: Problems) -> tuple[Literal, ...]:
    """Return the value of each input that has the dimension."""
    given: dict[str, ast.Binding] = {}
    having = [f.name for f in model.signature.params if dim in type_dims(f.type)]
    for one in pads.fill:
        name = one.name.text if one.name is not None else ""
        span = one.name.span if one.name is not None else one.span
        if name in given:
            problems.error("HR347", f"`{name}` is filled twice", span)
        elif name not in having:
            message = f"`{name}` is no input that has `{dim}`" if name else "say which input it is"
            problems.error("HR347", message, span, help=did_you_mean(name, having))
        given[name] = one
    missing = [name for name in having if name not in given]
    if missing and not given.keys() - set(having):  # else it may be misspelt
        listed = ", ".join(f"`{name}`" for name in missing)
        problems.error("HR347", f"nothing says what to fill {listed} up with", pads.span)
    return tuple(
        _value(given[field.name].value, field, problems) if field.name in given else None
        for field in model.signature.params
    )


def _value(expr: ast.Expr, field: Field, problems: Problems) -> Literal:
    type = bare(field.type)
    assert isinstance(type, TensorType)  # nothing else has the dimension
    dtype = type.dtype
    match expr:
        case ast.Number(value=value):
            return _number(value, dtype, expr.span, field, problems)
        case ast.Unary(op="-", operand=ast.Number(value=value)):
            return _number(-value, dtype, expr.span, field, problems)
        case ast.Bool(value=value) if dtype is DType.BOOL:
            return value
        case ast.String(value=value) if dtype is DType.STRING:
            return value
        case _:
            _misfit(f"`{field.name}` is {dtype.value}, so this cannot fill it", expr.span, problems)
            return None


def _number(
    value: int | float, dtype: DType, span: Span, field: Field, problems: Problems
) -> Literal:
    if not dtype.is_number:
        _misfit(f"`{field.name}` is {dtype.value}, so a number cannot fill it", span, problems)
        return None
    own = DType.I64 if isinstance(value, int) else DType.F32
    try:
        known = typed(Known(value, TensorType(own, ()), weak=True), TensorType(dtype, ()))
    except LiteralError as error:
        _misfit(f"`{field.name}` cannot be filled with it: {error}", span, problems)
        return None
    return scalar(known.literal)


def _misfit(message: str, span: Span, problems: Problems) -> None:
    problems.error("HR347", message, span)
