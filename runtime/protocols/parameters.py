"""Parameters of requests and tensors: which are ours, which are refused, which pass through."""

from collections.abc import Mapping
from typing import TypeAlias

from ..request import Code, Fault, RequestError
from .limits import Limits
from .names import shown

Value: TypeAlias = bool | int | float | str
Parameters: TypeAlias = Mapping[str, Value]

# What asks for an extension that is not served, and which one it is. To ignore it would be to
# answer another question.
_UNSERVED = {
    "classification": "classification",
    "shared_memory_region": "system_shared_memory",
    "shared_memory_offset": "system_shared_memory",
    "shared_memory_byte_size": "system_shared_memory",
}


def refuse_unserved(parameters: Parameters, limits: Limits) -> None:
    """Raise the Fault for a parameter of an extension that is not served, or for too many."""
    if len(parameters) > limits.parameters:
        raise RequestError(f"more than {limits.parameters} parameters")
    for name, value in parameters.items():
        if value and name in _UNSERVED:
            raise unserved(name)


def unserved(name: str) -> Fault:
    """Return the fault for a parameter of an extension that is not served."""
    return Fault(
        Code.UNSUPPORTED,
        f"parameter `{name}` needs the extension {_UNSERVED[name]}, which is not served",
    )


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
