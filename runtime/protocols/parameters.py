"""Parameters of requests and tensors: which are refused, and how they are read."""

from collections.abc import Mapping
from typing import TypeAlias

from ..request import RequestError
from .limits import Limits
from .names import shown

Value: TypeAlias = bool | int | float | str
Parameters: TypeAlias = Mapping[str, Value]

# What belongs to an input or an output. To pass it by would be to answer another question.
_OF_TENSORS = (
    "classification",
    "shared_memory_region",
    "shared_memory_offset",
    "shared_memory_byte_size",
)


def check_parameters(parameters: Parameters, limits: Limits) -> None:
    """Raise RequestError where a request has too many or too large ones, or those of a tensor."""
    if not parameters:
        return
    if len(parameters) > limits.parameters:
        raise RequestError(f"more than {limits.parameters} parameters")
    if sum(map(_length, parameters, parameters.values())) > limits.arguments:
        raise RequestError(f"parameters of more than {limits.arguments} bytes")
    for name in _OF_TENSORS:
        if name in parameters:
            raise RequestError(f"parameter `{name}` belongs to an input or output")


def _length(name: str, value: Value) -> int:
    """Return about how many bytes a parameter takes in a request, no more than it does."""
    return len(name) + (len(value) if isinstance(value, str) else 1)


def boolean(value: Value, name: str) -> bool:
    """Return a parameter's value that must be a bool."""
    if isinstance(value, bool):
        return value
    raise RequestError(f"parameter `{name}` must be true or false, got {shown(str(value))}")


def whole(parameters: Parameters, name: str) -> int | None:
    """Return a parameter that must be a number from 0; None when it is not given."""
    value = parameters.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RequestError(f"parameter `{name}` must be a whole number, got {shown(str(value))}")
    return value
