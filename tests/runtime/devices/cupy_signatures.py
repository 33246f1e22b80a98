"""What versions of CuPy say of the functions that are called here, kept beside this file.

    python -m tests.runtime.devices.cupy_signatures     # adds those of the CuPy that is installed

So calls are held to them where no CuPy is installed. They are read without a GPU.
"""

import inspect
import json
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

KEPT: Final = Path(__file__).with_suffix(".json")
RUNTIME: Final = (
    *("malloc", "free", "memcpyAsync", "memcpyPeerAsync", "memsetAsync", "memGetInfo"),
    *("streamWaitEvent", "eventRecord", "getDeviceCount", "getDeviceProperties"),
    *("runtimeGetVersion",),
)
NAMES: Final = (
    *(f"cuda.runtime.{name}" for name in RUNTIME),
    *("cuda.Stream.__init__", "cuda.Stream.wait_event", "cuda.Stream.begin_capture"),
    *("cuda.Stream.end_capture", "cuda.Event.__init__", "cuda.Event.record"),
    *("cuda.Event.synchronize", "cuda.Graph.launch", "cuda.alloc_pinned_memory"),
    *("cuda.UnownedMemory", "cuda.MemoryPointer", "from_dlpack", "ascontiguousarray", "ndarray"),
    "ndarray.__dlpack__",
)
HAVING: Final = {
    "cuda.Device": ("__enter__", "attributes", "compute_capability", "mem_info", "id"),
    "cuda.PinnedMemoryPointer": ("ptr",),
    "cuda.runtime.CUDARuntimeError": ("status",),
}


def said(cupy: Any) -> dict[str, str]:  # Any: CuPy is optional
    """Return the signature of each function, as Python or the first line of its text tells it, and
    what classes have."""
    found = {name: _signature(attrgetter(name)(cupy)) for name in NAMES}
    for name, attributes in HAVING.items():
        thing = attrgetter(name)(cupy)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            thing = thing(2)
        found[name] = " ".join(one for one in attributes if hasattr(thing, one))
    found["cuda.Event"] = "ptr" if "ptr (intptr_t)" in (cupy.cuda.Event.__doc__ or "") else ""
    return found


def _signature(thing: Any) -> str:  # Any: as above
    text = (thing.__doc__ or "").strip()
    first = text.splitlines()[0] if text else ""
    if "(" in first and not first.endswith("."):
        return first
    try:
        return str(inspect.signature(thing))
    except (TypeError, ValueError):
        return first


def kept() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(KEPT.read_text("utf-8"))
    return found


if __name__ == "__main__":
    import cupy  # pyright: ignore[reportMissingImports] CuPy is optional

    versions = kept() if KEPT.exists() else {}
    versions[cupy.__version__] = said(cupy)
    KEPT.write_text(json.dumps(dict(sorted(versions.items())), indent=1) + "\n", "utf-8")
