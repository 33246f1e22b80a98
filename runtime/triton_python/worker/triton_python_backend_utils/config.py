"""What a model finds out about itself: its configuration, its types, texts as bytes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from . import contents
from .tensor import TYPES, Tensor

TRITON_STRING_TO_NUMPY = {
    "TYPE_BOOL": bool,
    **{f"TYPE_{name}": dtype.type for name, dtype in contents.DTYPES.items() if name[0] in "UIF"},
    "TYPE_STRING": np.object_,
}
_NUMPY: dict[int, Any] = {
    TYPES[name]: dtype.type for name, dtype in contents.DTYPES.items() if name != "BF16"
}
_NUMPY[TYPES["BYTES"]] = np.object_
_TRITON: dict[Any, int] = {numpy: number for number, numpy in _NUMPY.items()}
_INPUT = ("name", "data_type", "dims", "optional")


def serialize_byte_tensor(input_tensor: Any) -> Any:
    """Return texts one behind the other, each behind its length of four bytes; `()` of none."""
    values = np.asarray(input_tensor)
    if not values.size:
        return ()
    return contents.serialized(values) if values.dtype.kind in "OS" else None


def deserialize_bytes_tensor(encoded_tensor: Any) -> Any:
    """Return the texts of their serialized form, in one axis."""
    return contents.deserialized(encoded_tensor)


def _named(tensors: Any, name: str) -> Tensor | None:
    for one in tensors:
        if one.name() == name:
            return one
    return None


def get_input_tensor_by_name(inference_request: Any, name: str) -> Tensor | None:
    """Return an input of a request, None where it has none of the name."""
    return _named(inference_request.inputs(), name)


def get_output_tensor_by_name(inference_response: Any, name: str) -> Tensor | None:
    """Return an output of a response, None where it has none of the name."""
    return _named(inference_response.output_tensors(), name)


def _configured(ports: Any, name: str) -> Any:
    return next((one for one in ports if one["name"] == name), None)


def get_input_config_by_name(model_config: Any, name: str) -> Any:
    """Return what a configuration says of an input, None where it has none of the name."""
    return _configured(model_config.get("input", ()), name)


def get_output_config_by_name(model_config: Any, name: str) -> Any:
    """Return what a configuration says of an output, None where it has none of the name."""
    return _configured(model_config.get("output", ()), name)


def using_decoupled_model_transaction_policy(model_config: Any) -> bool:
    """Tell whether a model may answer a request any number of times."""
    return model_config.get("model_transaction_policy", {}).get("decoupled", False)


def triton_to_numpy_type(data_type: Any) -> Any:
    return _NUMPY.get(int(data_type))


def numpy_to_triton_type(data_type: Any) -> int | None:
    kind = np.dtype(data_type).type
    return _TRITON.get(np.object_ if kind is np.bytes_ else kind)


def triton_string_to_numpy(triton_type_string: str) -> Any:
    return TRITON_STRING_TO_NUMPY[triton_type_string]


class ModelConfig:
    """The configuration that `auto_complete_config` adds to; what contradicts it is refused with a
    ValueError."""

    def __init__(self, model_config: Any) -> None:
        self._model_config = json.loads(model_config)

    def as_dict(self) -> dict[str, Any]:
        return self._model_config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        config = self._model_config
        given = config.setdefault("max_batch_size", 0)
        if given > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {given}, but in auto-complete-config "
                f"function for model '{config['name']}' specified max_batch_size {max_batch_size}"
            )
        config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        config = self._model_config
        for other in ("sequence_batching", "ensemble_scheduling"):
            if other in config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{other}', but "
                    f"auto-complete-config function for model '{config['name']}' tries to set "
                    "scheduling_choice as 'dynamic_batching'"
                )
        config.setdefault("dynamic_batching", {})

    def add_input(self, input: dict[str, Any]) -> None:
        self._add("input", input, _INPUT)

    def add_output(self, output: dict[str, Any]) -> None:
        self._add("output", output, _INPUT[:3])

    def set_model_transaction_policy(self, transaction_policy_dict: dict[str, Any]) -> None:
        config = self._model_config
        if set(transaction_policy_dict) - {"decoupled"}:
            raise ValueError(
                "model transaction property in auto-complete-config function for model "
                f"'{config['name']}' contains property other than 'decoupled'."
            )
        policy = config.setdefault("model_transaction_policy", {})
        if "decoupled" in transaction_policy_dict:
            wanted = transaction_policy_dict["decoupled"]
            given = policy.setdefault("decoupled", wanted)
            if given != wanted:
                raise ValueError(
                    "trying to change decoupled property in auto-complete-config for model "
                    f"'{config['name']}', which is already set to '{given}'."
                )

    def _add(self, what: str, port: dict[str, Any], known: tuple[str, ...]) -> None:
        model = self._model_config["name"]
        said = f"in auto-complete-config function for model '{model}'"
        if set(port) - set(known):
            listed = ", ".join(f"'{one}'" for one in known[:-1])
            raise ValueError(
                f"{what} '{port.get('name')}' {said} contains property other than {listed} and "
                f"'{known[-1]}'."
            )
        for needed in known[:3]:
            if needed not in port:
                name = f" '{port['name']}'" if "name" in port else ""
                raise ValueError(f"{what}{name} {said} is missing '{needed}' property.")
        ports = self._model_config.setdefault(what, [])
        given = _configured(ports, port["name"])
        if given is None:
            ports.append(port)
            return
        self._compare(what, given, port)
        given.update(port)

    def _compare(self, what: str, given: Any, port: dict[str, Any]) -> None:
        model, name = self._model_config["name"], port["name"]
        datatype = given.get("data_type", "TYPE_INVALID")
        if datatype not in ("TYPE_INVALID", port["data_type"]):
            raise ValueError(
                f"unable to load model '{model}', configuration expects datatype {datatype} for "
                f"{what} '{name}', model provides {port['data_type']}"
            )
        for key in ("dims", "optional"):
            expected = given.get(key)
            differs = key in port and expected is not None and expected != port[key]
            if differs and (key != "dims" or expected):
                raise ValueError(
                    f"model '{model}', tensor '{name}': the model expects {key} {port[key]} but "
                    f"the model configuration specifies {key} {expected}"
                )
