"""Expressions of a script: what is known is computed, and of arrays code is written."""

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from .values import ITSELF, Array, Failed, Itself, Kept, Known, Listed, Opaque, Value

COMPARED: Final[dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
_COMPUTED: Final[dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
}
_FLOATS: Final = ("f16", "f32", "f64")
DTYPES: Final = {
    "float16": "f16",
    "half": "f16",
    "float32": "f32",
    "single": "f32",
    "float64": "f64",
    "double": "f64",
    "bool_": "bool",
    **{
        f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
    },
}
"""The types of NumPy's by their names there."""


def known(value: Any) -> Value:  # Any: of Python
    """Return what is known as a value of a script."""
    if isinstance(value, list | tuple):
        return Listed([known(one) for one in value], fixed=True)
    return Known(value)


def compared(node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    """Return whether a comparison holds."""
    if isinstance(left, Opaque):
        raise Kept(node, left.reason)
    if isinstance(op, ast.Is | ast.IsNot) and right == Known(None):
        return Known((left == Known(None)) == isinstance(op, ast.Is))
    if type(op) not in COMPARED:
        raise Kept(node, "a comparison that is not one of sizes")
    sign, compute = COMPARED[type(op)]
    match left, right:
        case Known(a), Known(b):
            try:
                return Known(compute(a, b))
            except TypeError as error:
                raise Kept(node, f"it fails: {error}") from None
        case ((Array() | Known()), (Array() | Known())):
            a, b, _ = _alike(node, left, right)
            return Array(f"{a} {sign} {b}", "bool", _broadcast(node, left, right))
        case _:
            raise Kept(node, _unknown(left, right))


def computed(node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    """Return the result of an operator."""
    if type(op) is ast.Add and isinstance(left, Listed) and isinstance(right, Listed):
        return Listed([*left.items, *right.items], left.each or right.each)
    if type(op) not in _COMPUTED:
        raise Kept(node, "an operator that is none of + - * /")
    sign, compute = _COMPUTED[type(op)]
    match left, right:
        case Known(a), Known(b):
            try:
                return Known(compute(a, b))
            except (TypeError, ArithmeticError) as error:
                raise Kept(node, f"it fails: {error}") from None
        case ((Array() | Known()), (Array() | Known())):
            a, b, dtype = _alike(node, left, right)
            if dtype == "bool" or (sign == "/" and dtype not in _FLOATS):
                raise Kept(node, f"`{sign}` of {dtype} gives another type")
            return Array(f"({a} {sign} {b})", dtype, _broadcast(node, left, right))
        case _:
            raise Kept(node, _unknown(left, right))


def minus(node: ast.AST, value: Value) -> Value:
    """Return `-value`."""
    match value:
        case Known(int() | float() as found):
            return Known(-found)
        case Array(code, dtype, dims) if dtype[0] in "fi":
            return Array(f"(-{code})", dtype, dims)
        case _:
            raise Kept(node, _unknown(value))


def negated(node: ast.AST, value: Value) -> Value:
    """Return `not value`."""
    match value:
        case Known(found):
            return Known(not found)
        case Failed(was):
            return Failed(not was)
        case Array(code, "bool", ()):
            return Array(f"not ({code})", "bool", ())
        case _:
            raise Kept(node, _unknown(value))


def joined(node: ast.AST, op: ast.boolop, values: list[Value]) -> Value:
    """Return `a and b`, `a or b`; what is known beforehand is decided."""
    stop = isinstance(op, ast.Or)
    left: list[str] = []
    for one in values:
        match one:
            case Known(found) if bool(found) == stop and not left:
                return Known(stop)
            case Known(found) if bool(found) != stop:
                continue
            case Array(code, "bool", ()):
                left.append(f"({code})")
            case _:
                raise Kept(node, _unknown(one))
    if not left:
        return Known(not stop)
    return Array((" or " if stop else " and ").join(left), "bool", ())


def element(node: ast.AST, array: Array, places: list[int]) -> Array:
    """Return an element of an array, or a part behind its first axes."""
    if len(places) > len(array.dims):
        raise Kept(node, f"an array of {len(array.dims)} axes is indexed by {len(places)}")
    listed = ", ".join(map(str, places))
    return Array(f"{array.code}[{listed}]", array.dtype, array.dims[len(places) :])


def single(node: ast.AST, array: Array) -> Array:
    """Return the one element of an array of one."""
    if not array.dims:
        return array
    if any(dim != 1 for dim in array.dims):
        raise Kept(node, f"the one element of an array of {list(array.dims)} is wanted")
    return element(node, array, [0] * len(array.dims))


def cast(node: ast.AST, array: Array, dtype: str) -> Array:
    """Return an array of another type, where both sides convert alike."""
    if array.dtype == dtype:
        return array
    if array.dtype in ("bytes", "string", "bf16") or (
        dtype not in _FLOATS and (array.dtype in _FLOATS or dtype == "bool")
    ):
        raise Kept(node, f"{array.dtype} becomes {dtype}")
    return Array(f"cast({array.code}, {dtype})", dtype, array.dims)


def literal(node: ast.AST, value: Any, dtype: str) -> str:  # Any: of Python
    """Return a number as the language writes it beside values of a type."""
    if isinstance(value, bool) and dtype == "bool":
        return str(value).lower()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Kept(node, f"{value!r} meets values of {dtype}")
    if dtype in _FLOATS:
        return repr(float(value))
    if dtype == "bool" or not isinstance(value, int):
        raise Kept(node, f"{value!r} meets values of {dtype}")
    return repr(value)


def _alike(node: ast.AST, left: Array | Known, right: Array | Known) -> tuple[str, str, str]:
    """Return the code of two operands, and the type that both have."""
    arrays = [one for one in (left, right) if isinstance(one, Array)]
    dtype = arrays[0].dtype
    fraction = any(isinstance(one, Known) and isinstance(one.value, float) for one in (left, right))
    if fraction and dtype not in _FLOATS and dtype not in ("bytes", "string"):
        arrays = [cast(node, one, "f64") for one in arrays]
        left, right = (
            cast(node, one, "f64") if isinstance(one, Array) else one for one in (left, right)
        )
        dtype = "f64"
    if any(one.dtype != dtype for one in arrays):
        raise Kept(node, f"{arrays[0].dtype} meets {arrays[1].dtype}")
    if dtype in ("bytes", "string", "bf16"):
        raise Kept(node, f"a value of {dtype} is looked at")
    a, b = (
        one.code if isinstance(one, Array) else literal(node, one.value, dtype)
        for one in (left, right)
    )
    return a, b, dtype


def _broadcast(node: ast.AST, left: Value, right: Value) -> tuple[int, ...]:
    dims = [one.dims for one in (left, right) if isinstance(one, Array) and one.dims]
    if any(one != dims[0] for one in dims):
        raise Kept(node, "arrays of different sizes meet")
    return dims[0] if dims else ()


def _unknown(*values: Value) -> str:
    """Return the reason why nothing can be made of values."""
    for one in values:
        if isinstance(one, Opaque):
            return one.reason
        if one is ITSELF or isinstance(one, Itself):
            return "`self` is no value"
    return "it is not computed from arrays and numbers"
