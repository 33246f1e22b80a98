"""Calls ops as the runtime and the checker do, with what is left out filled in."""

from typing import Any

from headrace.dsl.dims import Dims
from headrace.dsl.types import DType, TensorType, Type
from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.op import Argument, Op, OpTypeError

F32 = DType.F32


def call(name: str, *values: Any, **named: Any) -> Any:
    """Run an op's reference."""
    op = load_catalog().op(name)
    return op.reference(*_filled(op, values, named))


def types(name: str, *arguments: "Argument | Type | Any", dims: Dims | None = None) -> Any:
    """Ask an op's shape rule; a Python value stands for a literal. One type is returned bare."""
    op = load_catalog().op(name)
    values = [_argument(one) for one in _filled(op, arguments, {})]
    found = op.types(values, dims or Dims())
    return found[0] if len(found) == 1 else found


def refusal(name: str, *arguments: "Argument | Type | Any") -> str:
    """Return what the shape rule says against arguments, as `parameter: wants`."""
    try:
        types(name, *arguments)
    except OpTypeError as error:
        return str(error)
    raise AssertionError(f"`{name}` takes these arguments")


def tensor(dtype: DType, *dims: Any) -> TensorType:
    return TensorType(dtype, dims)


def literal(value: Any) -> Argument:
    match value:
        case bool():
            kind = DType.BOOL
        case float():
            kind = DType.F32
        case str():
            kind = DType.STRING
        case tuple():
            inner = literal(value[0]).type
            assert isinstance(inner, TensorType)
            return Argument(TensorType(inner.dtype, (len(value), *inner.dims)), True, value)
        case _:
            kind = DType.I64
    return Argument(TensorType(kind), True, value)


def _argument(value: Any) -> Argument:
    if isinstance(value, Argument):
        return value
    return Argument(value) if hasattr(value, "__slots__") else literal(value)


def _filled(op: Op, values: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    filled = list(values)
    for param in op.params[len(values) :]:
        if param.variadic:
            continue
        filled.append(named.pop(param.name) if param.name in named else param.default)
    assert not named, f"no parameters {list(named)}"
    return filled
