"""What a caller says of a request beside its inputs, checked."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, cast

from .runtime.context import Parameters

OPTIONS = ("timeout", "outputs", "priority", "trace", "parameters", "id")

_NONE: Final[Parameters] = MappingProxyType({})


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
    if id is None or isinstance(id, str):
        return id or ""
    raise TypeError(f"the id of a request is a text, not {id!r}")


def request_parameters(parameters: object) -> Parameters:
    """Return the parameters of a request; raises TypeError where they are none."""
    if parameters is None:
        return _NONE
    found = cast("Mapping[object, object]", parameters) if isinstance(parameters, Mapping) else None
    if found is None or not all(
        isinstance(name, str) and isinstance(value, bool | int | float | str)
        for name, value in found.items()
    ):
        raise TypeError(
            "parameters are bools, numbers and texts by name, as in {'language': 'fr'}, "
            f"not {parameters!r}"
        )
    return dict(cast("Parameters", found))
