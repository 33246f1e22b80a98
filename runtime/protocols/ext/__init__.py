"""Extensions of the protocol, one a file.

parameters            free parameters of a request, which stages may read
schedule_policy       a request's own time limit and priority
sequence              requests whose pipeline keeps state from one to the next
binary_tensor_data    raw tensors behind the JSON of an HTTP body
classification        the highest values of an output, with their labels
system_shared_memory  tensors that lie in memory which client and server share
cuda_shared_memory    the same of a GPU, which is not served
decoupled             models that answer a request any number of times
model_configuration   what a pipeline is, in the words of the protocol
model_repository      what there is to be served; loading and unloading
statistics            what each model has done
generate              plain JSON in and out, and server-sent events
trace                 the settings of tracing
logging               the settings of the log

`NAMES` of a file is what server metadata says, `OPERATIONS` what it adds to what can be asked, and
`served`, where there is one, tells whether a server serves it. An extension that is not here is not
served: its parameters, routes and calls are refused by name.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...service import Service
    from ..operation import Operation


def extensions(service: "Service") -> tuple[str, ...]:
    """Return the names of the extensions that a server serves, for its metadata."""
    names: list[str] = []
    for module in _modules():
        served = getattr(module, "served", None)
        if served is None or served(service):
            names += module.NAMES
    return tuple(names)


def operations() -> "tuple[Operation, ...]":
    """Return what the extensions add to what can be asked."""
    return tuple(one for module in _modules() for one in getattr(module, "OPERATIONS", ()))


def _modules() -> Iterator[ModuleType]:
    for name in sorted(module.name for module in iter_modules(__path__)):
        yield import_module(f".{name}", __name__)
