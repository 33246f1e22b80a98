"""What a model is told of itself: its configuration as JSON, and how it is run.

The configuration is that of the `config.pbtxt` beside its versions; what that leaves out of inputs
and outputs is as they are declared.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..load_error import BAD_MODEL, LoadError
from ..model_backend import Port, library
from ..protocols.datatypes import DATATYPES

Config = dict[str, Any]  # Any: JSON
Shapes = Mapping[str, Sequence[int | None]]

_STRING: Final = "TYPE_STRING"
_COMMENTS: Final = re.compile(rb"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|#[^\n]*""")
"""Texts in quotes, which are the group, and comments."""


def read_config(folder: Path, model: str) -> Config:
    """Return the configuration in a model's folder; empty but for the name where there is none.
    Raises LoadError."""
    path = folder / "config.pbtxt"
    if not path.is_file():
        return {"name": model, "backend": "python"}
    library("google.protobuf", "server")
    from google.protobuf import json_format, text_format

    from ..protocols.messages import ModelConfig

    message = ModelConfig()
    try:
        text_format.Parse(decoded(path.read_bytes()), message, allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise LoadError(BAD_MODEL, f"config.pbtxt: {error}") from error
    found: Config = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _numbers(found) | {"name": message.name or model}


def decoded(content: bytes) -> str:
    """Return the text of a configuration: in UTF-8, but for its comments, which may be in any
    encoding. Raises UnicodeDecodeError."""
    return _COMMENTS.sub(_readable, content).decode("utf-8")


def _readable(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] else found[0].decode("utf-8", "replace").encode()


def declared(
    config: Config, inputs: Sequence[Port], outputs: Sequence[Port], rows: bool, device: str
) -> Config:
    """Return the configuration with the inputs, outputs and instances that it says nothing of; with
    `rows` they have a batch axis."""
    told: Config = {**config, "instance_group": _instance_groups(config, device)}
    sequences = told.get("sequence_batching") or {}
    controls = {one["name"] for one in sequences.get("control_input") or ()}
    for what, ports in (("input", inputs), ("output", outputs)):
        known = {one["name"] for one in told.get(what) or ()} | controls
        others = [_port(one, rows) for one in ports if one.name not in known]
        told[what] = [*(told.get(what) or ()), *others]
    told.setdefault("max_batch_size", 1 if rows else 0)
    told["default_model_filename"] = told.get("default_model_filename") or "model.py"
    return told


def arguments(
    config: Config, folder: Path, version: str, device: str, index: int
) -> dict[str, str]:
    """Return what `initialize` is given."""
    model = config["name"]
    names = [
        f"{one['name']}_{number}"
        for one in config.get("instance_group") or ()
        for number in range(one["count"])
        for _ in one["gpus"] or (0,)
    ]
    kind, _, number = device.partition(":")
    return {
        "model_config": json.dumps(config),
        "model_instance_kind": "GPU" if kind == "gpu" else "CPU",
        "model_instance_name": names[index] if index < len(names) else f"{model}_{index}",
        "model_instance_device_id": number or "0",
        "model_repository": str(folder),
        "model_version": version,
        "model_name": model,
    }


def shapes_of(config: Config) -> Shapes:
    """Return in which shape the model is given inputs that callers give in another; None stands for
    the rows of a request."""
    rows = [None] if config.get("max_batch_size") else []
    return {
        one["name"]: (*rows, *map(int, one["reshape"].get("shape") or ()))
        for one in config.get("input") or ()
        if one.get("reshape") is not None
    }


def parameter(config: Config, name: str) -> str:
    """Return a parameter of the configuration, "" where it has none."""
    found = (config.get("parameters") or {}).get(name) or {}
    return found.get("string_value", "")


def _instance_groups(config: Config, device: str) -> list[Config]:
    """Return the groups of instances with what a tritonserver fills in, which models look at."""
    model, kind = config["name"], "KIND_GPU" if device.startswith("gpu") else "KIND_CPU"
    one: Config = {"name": model, "kind": kind, "count": 1, "gpus": []}
    one |= {"secondary_devices": [], "profile": [], "passive": False, "host_policy": ""}
    return [
        {
            **one,
            **group,
            "name": group["name"] or f"{model}_{number}",
            "kind": kind if group["kind"] == "KIND_AUTO" else group["kind"],
            "count": max(1, group["count"]),
        }
        for number, group in enumerate(config.get("instance_group") or ())
    ] or [one]


def _port(port: Port, rows: bool) -> Config:
    name = None if port.dtype is None else DATATYPES[port.dtype].name
    datatype = _STRING if name in (None, "BYTES") else f"TYPE_{name}"
    dims = [-1 if one is None else one for one in port.dims or ()]
    return {"name": port.name, "data_type": datatype, "dims": dims[1:] if rows else dims}


def _numbers(value: Any) -> Any:  # Any: JSON
    """Return JSON whose long integers are numbers, which Protobuf writes as texts."""
    if isinstance(value, dict):
        return {key: _whole(one) if key in _LONG else _numbers(one) for key, one in value.items()}
    return [_numbers(one) for one in value] if isinstance(value, list) else value


def _whole(value: Any) -> Any:  # Any: JSON
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


_LONG: Final = frozenset(
    {
        "dims",
        "shape",
        "versions",
        "max_queue_delay_microseconds",
        "max_sequence_idle_microseconds",
        "default_timeout_microseconds",
        "default_queue_policy",
        "priority_queue_policy",
        "priority_levels",
        "default_priority_level",
        "model_version",
        "size",
        "max_candidate_sequences",
        "execution_timeout",
    }
)
"""Fields whose numbers have 64 bits."""
