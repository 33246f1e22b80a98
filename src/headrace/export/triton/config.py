"""A `ModelConfig` from its JSON form, and as the text of a config.pbtxt.

`write` of what was read is the same message for any message: the text is protobuf's own.
"""

from typing import Any, TypeAlias

from google.protobuf import json_format, text_format

from ...runtime.protocols.messages import ModelConfig

Json: TypeAlias = dict[str, Any]  # Any: JSON


def message_of(config: Json) -> Any:  # Any: a message, made at run time
    """Return the message of a configuration."""
    return json_format.ParseDict(config, ModelConfig())


def write(message: Any) -> str:  # Any: likewise
    """Return the text of a config.pbtxt, which `parse` reads as the same message."""
    return text_format.MessageToString(message, as_utf8=True)


def parse(text: str) -> Any:  # Any: likewise
    """Return the message of a config.pbtxt; raises text_format.ParseError."""
    return text_format.Parse(text, ModelConfig())
