"""What a script may call: of Triton's, of NumPy's and of Python's, as far as it is known here."""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .asking import Asker
from .expressions import DTYPES, cast, known, single
from .values import (
    Answer,
    Array,
    Asking,
    Failed,
    Kept,
    Known,
    Listed,
    NeedsWhole,
    OneRequest,
    Opaque,
    Part,
    Response,
    Tensor,
    Value,
    plain,
)

PB: Final = "triton_python_backend_utils"
Arguments = Sequence[Value]
Keywords = Mapping[str, Value]

LOGGED: Final = frozenset(
    (
        *("log", "log_info", "log_warn", "log_error", "log_verbose"),
        *("info", "debug", "warning", "error", "print"),
    )
)
"""What writes into a log; it changes no answer."""


def call_part(asker: Asker, node: ast.Call, name: str, given: Arguments, named: Keywords) -> Value:
    """Return what a function of a module, or one of Python's own, gives."""
    module, _, member = name.partition(".")
    match module, member:
        case _, "" if name in _BUILT_IN:
            if any(isinstance(one, Array) for one in given):
                looked_into(asker)
            return _BUILT_IN[name](node, *given)
        case "json", "loads" if given and isinstance(given[0], Known):
            return Known(json.loads(given[0].value))
        case "time" | "datetime" | "logging", _:
            return Opaque(f"`{name}` is another at each time")
        case "asyncio", "gather":
            return _gathered(given)
        case "numpy", _:
            return _of_numpy(asker, node, member, given, named)
        case "torch", "utils.dlpack.from_dlpack" | "from_dlpack":
            return _array(node, given)
        case str() as known_as, _ if known_as == PB:
            return _of_triton(asker, node, member, given, named)
        case _:
            raise Kept(node, f"`{name}` is called, and what it does is not known here")


def call_method(
    asker: Asker, node: ast.Call, owner: Value, name: str, given: Arguments, named: Keywords
) -> Value:
    """Return what a method of a value gives."""
    match owner, name:
        case Asking(), "exec" | "async_exec":
            if named or given:
                raise Kept(node, "it reads any number of answers")
            return asker.ask(node, owner)
        case Answer(), "has_error":
            return Failed()
        case Answer(tensors), "output_tensors":
            return Listed(list(tensors))
        case Answer(), "error":
            return Opaque("no answer that is gone on with has an error")
        case Tensor(array=array), "as_numpy" | "to_dlpack":
            return array
        case Tensor(name=called), "name":
            return Known(called)
        case Tensor(), "is_cpu":
            return Known(True)
        case Array(), _:
            return _of_array(asker, node, owner, name, given, named)
        case Known(dict() as found), "get" if isinstance(given[0], Known):
            default = plain(given[1]) if len(given) > 1 else None
            return known(found.get(given[0].value, default))
        case OneRequest(), "set_release_flags" | "get_response_sender" | "inputs":
            raise Kept(node, f"it calls `{name}` of its request")
        case OneRequest(), _:
            return Opaque(f"`{name}` tells of the request what is not in its tensors")
        case Opaque(reason), _:
            raise Kept(node, reason)
        case _:
            raise Kept(node, f"`{name}` is called, and what it does is not known here")


def looked_into(asker: Asker) -> None:
    """Note that a tensor's elements are a matter of their places: rows are no items of their own
    then."""
    if asker.batches and not asker.whole:
        raise NeedsWhole


def _of_triton(asker: Asker, node: ast.Call, name: str, given: Arguments, named: Keywords) -> Value:
    match name, *given:
        case "get_input_tensor_by_name", OneRequest(), Known(str() as wanted):
            return asker.given(node, wanted) or Known(None)
        case "get_output_tensor_by_name", Answer(tensors), Known(wanted):
            return next((one for one in tensors if one.name == wanted), Known(None))
        case "InferenceRequest", *rest if not rest:
            return _asking(node, named)
        case "InferenceResponse", *_:
            return _response(node, given, named)
        case "Tensor" | "Tensor.from_dlpack", Known(str() as called), Array() as array:
            return Tensor(called, array)
        case (
            ("get_input_config_by_name" | "get_output_config_by_name"),
            Known(config),
            Known(one),
        ):
            side = name.split("_")[1]
            return Known(next((each for each in config[side] if each["name"] == one), None))
        case "triton_string_to_numpy", Known(str() as told):
            return Part(f"numpy.{_named_type(told)}")
        case (("TritonError" | "TritonModelException" | "Logger"), *_):
            return Opaque("an error")
        case _:
            raise Kept(node, f"`pb_utils.{name}` is called in a way that is not known here")


def _asking(node: ast.AST, named: Keywords) -> Asking:
    allowed = {"model_name", "model_version", "requested_output_names", "inputs"}
    if others := sorted(set(named) - allowed):
        raise Kept(node, f"a request is given `{others[0]}`")
    try:
        model = plain(named["model_name"])
        version = plain(named.get("model_version", Known(-1)))
        wanted = plain(named.get("requested_output_names", Listed([])))
    except (ValueError, KeyError):
        raise Kept(node, "which model is asked, or for what, is computed") from None
    inputs = named.get("inputs", Listed([]))
    if not isinstance(inputs, Listed) or inputs.each:
        raise Kept(node, "a request's inputs are not listed")
    return Asking(model, version, tuple(wanted), tuple(_tensors(node, inputs)))


def _response(node: ast.AST, given: Arguments, named: Keywords) -> Response:
    if plain_or(named.get("error", Known(None))) is not None:
        return Response((), failed=True)
    tensors = given[0] if given else named.get("output_tensors", Listed([]))
    if set(named) - {"output_tensors", "error"} or len(given) > 1:
        raise Kept(node, "a response has more than tensors")
    if not isinstance(tensors, Listed) or tensors.each:
        raise Kept(node, "a response's tensors are not listed")
    return Response(tuple(_tensors(node, tensors)))


def plain_or(value: Value) -> Any:  # Any: of Python
    """Return what is known, and the value itself where it is not."""
    try:
        return plain(value)
    except ValueError:
        return value


def _tensors(node: ast.AST, listed: Listed) -> Sequence[Tensor]:
    found: list[Tensor] = []
    for one in listed.items:
        if not isinstance(one, Tensor):
            reason = one.reason if isinstance(one, Opaque) else "a tensor is something else"
            raise Kept(node, reason)
        found.append(one)
    return found


def _of_array(
    asker: Asker, node: ast.Call, array: Array, name: str, given: Arguments, named: Keywords
) -> Value:
    match name:
        case "copy" | "cpu" | "numpy" | "detach" | "contiguous" | "as_numpy" if not given:
            return array
        case "astype" if len(given) == 1 and not named:
            return cast(node, array, _type_of(node, given[0]))
        case "item" if not given:
            looked_into(asker)
            found = single(node, array)
            return cast(node, found, "f64") if found.dtype in ("f16", "f32") else found
        case "max" | "min" if not given and not named and array.dims:
            looked_into(asker)
            return Array(f"{name}({array.code})", array.dtype, ())
        case "reshape" if given:
            looked_into(asker)
            return _reshaped(node, array, given)
        case "flatten" | "ravel" if not given:
            looked_into(asker)
            return _reshaped(node, array, [Known(-1)])
        case _:
            raise Kept(node, f"`{name}` of an array is not known here")


def _of_numpy(asker: Asker, node: ast.Call, name: str, given: Arguments, named: Keywords) -> Value:
    match name, *given:
        case "expand_dims", Array() as array, *rest:
            looked_into(asker)
            axis = _axis(node, [*rest, *named.values()])
            at = axis if axis >= 0 else axis + len(array.dims) + 1
            dims = (*array.dims[:at], 1, *array.dims[at:])
            return Array(f"expand_dims({array.code}, axis = {axis})", array.dtype, dims)
        case (("max" | "min" | "amax" | "amin"), Array() as array) if not named and array.dims:
            looked_into(asker)
            return Array(f"{name.removeprefix('a')}({array.code})", array.dtype, ())
        case (("asarray" | "ascontiguousarray"), Array() as array) if not named:
            return array
        case name, Array() as array if name in DTYPES and not array.dims:
            return cast(node, array, DTYPES[name])
        case _:
            raise Kept(node, f"`np.{name}` is called in a way that is not known here")


def _axis(node: ast.AST, given: Arguments) -> int:
    match given:
        case [Known(int() as axis)]:
            return axis
        case _:
            raise Kept(node, "an axis is not known")


def _reshaped(node: ast.AST, array: Array, given: Arguments) -> Array:
    try:
        sizes = [plain(one) for one in given]
    except ValueError:
        raise Kept(node, "a shape is computed") from None
    sizes = sizes[0] if isinstance(sizes[0], list) else sizes
    listed = ", ".join(map(str, sizes))
    return Array(f"reshape({array.code}, [{listed}])", array.dtype, tuple(sizes))


def _type_of(node: ast.AST, value: Value) -> str:
    """Return the type that `np.float32`, or a text for it, stands for."""
    match value:
        case Part(name) if (found := name.removeprefix("numpy.")) in DTYPES:
            return DTYPES[found]
        case Known(str() as found) if found in DTYPES:
            return DTYPES[found]
        case Part("float"):
            return "f64"
        case _:
            raise Kept(node, "a type is not known")


def _named_type(told: str) -> str:
    names = {"TYPE_BOOL": "bool_", "TYPE_STRING": "object_"}
    kind = told.removeprefix("TYPE_").lower().replace("fp", "float")
    return names.get(told, kind)


def _gathered(given: Arguments) -> Value:
    each = any(isinstance(one, Listed) and one.each for one in given)
    return Listed(list(given), each)


def _array(node: ast.AST, given: Arguments) -> Array:
    match given:
        case [Array() as array]:
            return array
        case _:
            raise Kept(node, "what is read is no tensor")


def _len(node: ast.AST, value: Value) -> Value:
    match value:
        case Listed(each=True):
            raise Kept(node, "how many requests there are is no matter of one of them")
        case Listed(items):
            return Known(len(items))
        case Known(found):
            return Known(len(found))
        case Array(code, _, dims) if dims:
            return Known(dims[0]) if dims[0] >= 0 else Array(f"len({code})", "i64", ())
        case _:
            raise Kept(node, "a length is not known")


def _float(node: ast.AST, value: Value) -> Value:
    match value:
        case Known(found):
            return Known(float(found))
        case Array():
            return cast(node, single(node, value), "f64")
        case _:
            raise Kept(node, "a number is not known")


def _int(node: ast.AST, value: Value) -> Value:
    match value:
        case Known(found):
            return Known(int(found))
        case Array():
            return cast(node, single(node, value), "i64")
        case _:
            raise Kept(node, "a number is not known")


def _bool(node: ast.AST, value: Value) -> Value:
    match value:
        case Known(found):
            return Known(bool(found))
        case Array(dtype="bool"):
            return single(node, value)
        case _:
            raise Kept(node, "whether it holds is not known")


def _range(node: ast.AST, *given: Value) -> Value:
    try:
        return Known(range(*map(plain, given)))
    except (ValueError, TypeError):
        raise Kept(node, "how often a loop turns is computed") from None


def _enumerate(node: ast.AST, value: Value) -> Value:
    if not isinstance(value, Listed):
        raise Kept(node, "what is counted is no list")
    place = Opaque("which of several requests it is, is no matter of one of them")
    return Listed(
        [Listed([place if value.each else Known(i), one]) for i, one in enumerate(value.items)],
        value.each,
    )


def _zip(node: ast.AST, *given: Value) -> Value:
    lists = [one for one in given if isinstance(one, Listed)]
    if len(lists) != len(given) or len({(one.each, len(one.items)) for one in lists}) != 1:
        raise Kept(node, "what goes side by side is no two lists of equal length")
    rows = zip(*(one.items for one in lists), strict=True)
    return Listed([Listed(list(row)) for row in rows], lists[0].each)


def _list(node: ast.AST, value: Value) -> Value:
    if not isinstance(value, Listed):
        raise Kept(node, "what is listed is no list")
    return Listed(list(value.items), value.each)


def _str(node: ast.AST, value: Value) -> Value:
    if not isinstance(value, Known):
        raise Kept(node, "a text is computed")
    return Known(str(value.value))


_BUILT_IN: Final = {
    "len": _len,
    "float": _float,
    "int": _int,
    "bool": _bool,
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "list": _list,
    "tuple": _list,
    "str": _str,
}
