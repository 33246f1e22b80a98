"""Extensions of the protocol, one a file; `NAMES` in it is what server metadata says.

parameters           free parameters of a request, which stages may read
schedule_policy      a request's own time limit and priority
sequence             requests whose pipeline keeps state from one to the next
binary_tensor_data   raw tensors behind the JSON of an HTTP body
decoupled            models that answer a request any number of times
model_configuration  what a pipeline is, in the words of the protocol

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
