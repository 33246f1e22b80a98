"""What a caller says of a request beside its inputs, checked."""

from collections.abc import Iterable, Mapping
from math import isfinite
from numbers import Real
from operator import index
from types import MappingProxyType
from typing import Final, SupportsIndex, cast
from uuid import uuid4

from .runtime.context import Parameters

OPTIONS = ("timeout", "outputs", "priority", "trace", "parameters", "id")

_NONE: Final[Parameters] = MappingProxyType({})
_OF_THE_PROTOCOL: Final = frozenset(
    {"timeout", "priority", "sequence_id", "sequence_start", "sequence_end"}
)
"""Parameters that a server takes for what they are called; see `protocols/ext/parameters.py`."""
_FOREVER: Final = 1e9
"""Seconds; clocks, sockets and deadlines of gRPC can still be added to it."""
_WORD: Final = 1 << 64
"""Whole numbers on the wire have 64 bits."""
_LONGEST_ID: Final = 128
"""Characters in the id of a sequence."""


def request_timeout(timeout: object) -> float | None:
    """Return the seconds that a request may take, None where it may take any; raises TypeError."""
    if timeout is None:
        return None
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, float | int | Real)
        or timeout != timeout
    ):
        raise TypeError(f"the timeout of a request is a number of seconds, not {timeout!r}")
    return float(timeout) if timeout < _FOREVER else None


def request_priority(priority: object) -> int:
    """Return the priority of a request, 0 where none is given; raises TypeError."""
    if priority is None:
        return 0
    try:
        number = index(cast("SupportsIndex", priority))
    except TypeError:
        number = -1
    if isinstance(priority, bool) or not 0 <= number < _WORD // 2:
        raise TypeError(f"the priority of a request is a whole number from 1 on, not {priority!r}")
    return number


def sequence_id(id: object, numbered: bool) -> int | str:
    """Return the id of a sequence; where none is given, one that no other has. Raises TypeError."""
    match id:
        case None:
            unique = uuid4()
            return unique.int % (_WORD - 1) + 1 if numbered else unique.hex
        case bool():  # which would be the sequence 1
            pass
        case int() if 0 < id < _WORD:
            return id
        case str() if 0 < len(id) <= _LONGEST_ID and _is_text(id):
            return id
        case _:
            pass
    raise TypeError(
        f"the id of a sequence is a number from 1 to 2**64 - 1 or a text of 1 to {_LONGEST_ID} "
        f"characters, not {id!r}"
    )


def names_of(outputs: object) -> tuple[str, ...]:
    """Return the names of results that a caller wants; one name stands for itself."""
    if isinstance(outputs, str):
        return (outputs,)
    names = tuple(cast("Iterable[object]", outputs)) if isinstance(outputs, Iterable) else ()
    if not isinstance(outputs, Iterable) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"outputs are names of results, as in ['text'], not {outputs!r}")
    return cast("tuple[str, ...]", names)


def request_id(id: object) -> str:
    """Return the id of a request, empty where there is none; raises TypeError."""
    if id is None or (isinstance(id, str) and _is_text(id)):
        return id or ""
    raise TypeError(f"the id of a request is a text, not {id!r}")


def request_parameters(parameters: object) -> Parameters:
    """Return the parameters of a request; raises TypeError where they are none."""
    if parameters is None:
        return _NONE
    found = cast("Mapping[object, object]", parameters) if isinstance(parameters, Mapping) else None
    if found is None or not all(
        isinstance(name, str) and _is_text(name) and _is_parameter(value)
        for name, value in found.items()
    ):
        raise TypeError(
            "parameters are bools, finite numbers of 64 bits and texts by name, as in "
            f"{{'language': 'fr'}}, not {parameters!r}"
        )
    if taken := _OF_THE_PROTOCOL.intersection(cast("Parameters", found)):
        raise TypeError(
            f"`{min(taken)}` is what servers take for more than a parameter: it is given as an "
            "option of a call, or by calling a sequence"
        )
    return dict(cast("Parameters", found))


def _is_parameter(value: object) -> bool:
    match value:
        case bool():
            return True
        case int():
            return -_WORD // 2 <= value < _WORD
        case float():
            return isfinite(value)
        case str():
            return _is_text(value)
        case _:
            return False


def _is_text(text: str) -> bool:
    """Whether UTF-8 has bytes for a text: for half of a surrogate pair it has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
