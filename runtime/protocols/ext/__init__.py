"""Extensions of the protocol, one a file; `NAMES` in it is what server metadata says.

An extension that is not here is not served: its parameters, routes and calls are refused by name.
"""

from importlib import import_module
from pkgutil import iter_modules


def extensions() -> tuple[str, ...]:
    """Return the names of all extensions in this folder, for server metadata."""
    modules = sorted(module.name for module in iter_modules(__path__))
    names: list[str] = []
    for name in modules:
        names += import_module(f".{name}", __name__).NAMES
    return tuple(names)
