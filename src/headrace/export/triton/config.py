"""A `ModelConfig` from its JSON form; `headrace.triton.config_write` makes the text of it."""

from typing import Any, TypeAlias

from google.protobuf import json_format

from ...runtime.protocols.messages import ModelConfig

Json: TypeAlias = dict[str, Any]  # Any: JSON


def message_of(config: Json) -> Any:  # Any: a message, made at run time
    """Return the message of a configuration."""
    return json_format.ParseDict(config, ModelConfig())
