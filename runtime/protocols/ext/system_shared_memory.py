"""Extension: tensors that lie in memory which client and server share.

A client registers a region by a name of its own and then says of an input or output where in it
its bytes are. What opens regions is `runtime.regions`; this is what is said of them.
"""

from typing import Any

from ...access import Access, Caller
from ...regions import Place, Regions
from ...request import Code, Fault, RequestError
from ...service import Service
from ..names import is_name, shown
from ..operation import Arguments, Operation, number, text
from ..parameters import Parameters, whole

NAMES = ("system_shared_memory",)


def served(service: Service) -> bool:
    """Whether a server has it."""
    return service.regions is not None


def read_place(parameters: Parameters) -> Place | None:
    """Read where a tensor lies; None when it travels with the request."""
    region = parameters.get("shared_memory_region")
    if region is None:
        return None
    if not isinstance(region, str) or not is_name(region):
        raise RequestError(f"{shown(str(region))} is no region's name")
    offset = whole(parameters, "shared_memory_offset") or 0
    size = whole(parameters, "shared_memory_byte_size")
    if size is None:
        raise RequestError("`shared_memory_region` goes with `shared_memory_byte_size`")
    return Place(region, offset, size)


def _regions(service: Service) -> Regions:
    if service.regions is None:
        raise Fault(Code.UNSUPPORTED, "the extension system_shared_memory is not served")
    return service.regions


def _status(service: Service, asked: Arguments, caller: Caller) -> Any:  # Any: JSON
    found = _regions(service).status(text(asked, "name"), caller.name)
    return [
        {"name": one.name, "key": one.key, "offset": one.offset, "byte_size": one.size}
        for one in found
    ]


def _register(service: Service, asked: Arguments, caller: Caller) -> None:
    if "key" not in asked or "byte_size" not in asked:
        raise RequestError("to register a region takes `key` and `byte_size`")
    _regions(service).register(
        text(asked, "name"),
        text(asked, "key"),
        number(asked, "offset"),
        number(asked, "byte_size"),
        caller.name,
    )


def _unregister(service: Service, asked: Arguments, caller: Caller) -> None:
    _regions(service).unregister(text(asked, "name"), caller.name)


_PATH = "/v2/systemsharedmemory"
_REGION = f"{_PATH}/region/{{name}}"

OPERATIONS = (
    Operation(
        "SystemSharedMemoryStatus",
        Access.MEMORY,
        "The regions that the caller has registered",
        (("GET", f"{_PATH}/status"), ("GET", f"{_REGION}/status")),
        _status,
        gives=lambda found: {"regions": {one["name"]: one for one in found}},
    ),
    Operation(
        "SystemSharedMemoryRegister",
        Access.MEMORY,
        "Register a region of shared memory",
        (("POST", f"{_REGION}/register"),),
        _register,
        required=(("key", "string"), ("byte_size", "integer")),
    ),
    Operation(
        "SystemSharedMemoryUnregister",
        Access.MEMORY,
        "Forget a region, or all of them",
        (("POST", f"{_PATH}/unregister"), ("POST", f"{_REGION}/unregister")),
        _unregister,
    ),
)
