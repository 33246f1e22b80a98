"""Tensors in memory of a GPU, which is not shared here: there are no regions, and none to register.

Clients ask for none to be left before they begin, with whatever memory they share. So what tells of
regions and forgets them answers as it is, and only what would need one is refused.
"""

from typing import Any

from ...access import Access, Caller
from ...request import Code, Fault
from ...service import Service
from ..operation import Arguments, Operation

NAMES: tuple[str, ...] = ()


def _status(_: Service, __: Arguments, ___: Caller) -> Any:  # Any: JSON
    return []


def _register(_: Service, __: Arguments, ___: Caller) -> None:
    raise Fault(
        Code.UNSUPPORTED,
        "the extension cuda_shared_memory is not served: share system memory, or send the values",
    )


def _unregister(_: Service, __: Arguments, ___: Caller) -> None:
    """Forget all of none."""


_PATH = "/v2/cudasharedmemory"
_REGION = f"{_PATH}/region/{{name}}"

OPERATIONS = (
    Operation(
        "CudaSharedMemoryStatus",
        Access.MEMORY,
        "The regions of GPU memory: none",
        (("GET", f"{_PATH}/status"), ("GET", f"{_REGION}/status")),
        _status,
        gives=lambda _: {},
    ),
    Operation(
        "CudaSharedMemoryRegister",
        Access.MEMORY,
        "Not served",
        (("POST", f"{_REGION}/register"),),
        _register,
    ),
    Operation(
        "CudaSharedMemoryUnregister",
        Access.MEMORY,
        "Forget regions of GPU memory, of which there are none",
        (("POST", f"{_PATH}/unregister"), ("POST", f"{_REGION}/unregister")),
        _unregister,
    ),
)
