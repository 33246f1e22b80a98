"""How a worker has ended, as whoever it served is told: the cause, and what to do."""

import signal
from typing import Final

RAN: Final = "ran this, and is started again"
LOADED: Final = "was loaded"

_EXIT: Final = "a stage returns or raises, it does not exit"
_CRASH: Final = "a native library that it uses has crashed; the log says where"
_KILLED: Final = {
    "SIGKILL": "someone has killed it, or the system has for want of memory",
    "SIGTERM": "someone has ended it",
}


def died(status: int | None, doing: str) -> str:
    """Return what to say of a worker whose process has this status; None is not ended yet."""
    how, cure = "closed its socket", "a stage leaves alone what it has not opened"
    if status is not None and status >= 0:
        how, cure = f"ended with status {status}", _EXIT
    elif status is not None:
        name = _signal(-status)
        how, cure = f"was ended by {name}", _KILLED.get(name, _CRASH)
    return f"its worker process {how} while it {doing}: {cure}"


def wrong(doing: str) -> str:
    """Return what to say of a worker that did not keep to the protocol."""
    return (
        f"its worker process sent what is no answer while it {doing}: "
        "something in it writes to what is not its own"
    )


def late(timeout: float | None) -> str:
    """Return what to say of a run that took too long."""
    return (
        f"it took longer than the {timeout or 0.0:g} s that its `isolate` gives a run; its worker "
        "process was killed and is started again: give `timeout` more, or make it faster"
    )


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
