"""What a fault is beside its text, for clients that raise it again as it was.

Statuses are coarse and texts are for people. So an error also comes with its code, where it
happened, and whether anything of the request was done: over gRPC in a trailer, over HTTP in a
header, in a stream as a parameter of the message. It is JSON in ASCII, and short.
"""

import json
from typing import Any, Final, NamedTuple

from ...compiler.plan import Place
from ..request import Code, EngineClosed, Fault, RequestError
from .names import shown

FAULT: Final = "headrace-fault"
"""The name of the header, the trailer and the parameter."""

_LONGEST = 200  # characters of a source line
_LONGEST_WAIT = 86400.0  # seconds; who is told of more is told of none


def write_fault(fault: Fault) -> str:
    """Return what is told of a fault beside its text."""
    told: dict[str, Any] = {"code": fault.code.value}  # Any: JSON
    if isinstance(fault, RequestError):
        told["request"] = True
    for name in ("pipeline", "stage", "retry_after"):
        if (value := getattr(fault, name)) is not None:
            told[name] = value
    if fault.item:
        told["item"] = fault.item
    if (place := fault.place) is not None:
        told["place"] = [place.file, place.line, place.column, place.text[:_LONGEST]]
    if is_untouched(fault):
        told["untouched"] = True
    return json.dumps(told).replace("\x7f", "\\u007f")  # a header takes no control character


def is_untouched(fault: Fault) -> bool:
    """Whether nothing of the request was done, so that it may be sent again."""
    refused = fault.code is Code.OVERLOADED and fault.stage is None
    return refused or isinstance(fault, EngineClosed)


class Told(NamedTuple):
    """What a server told of an error; with `untouched` it has done nothing of the request."""

    fault: Fault
    untouched: bool


def read_fault(code: Code, text: str, told: str | None, request_id: str = "") -> Told:
    """Return the fault that a server tells of by `text`; `code` is what its status says, which is
    all there is where the server is of another kind."""
    try:
        found = json.loads(told or "{}")
        place = found.get("place")
        where = Fault(
            Code(found.get("code", code.value)),
            "",
            pipeline=found.get("pipeline"),
            stage=found.get("stage"),
            item=tuple(found.get("item", ())),
            place=None if place is None else Place(*place),
            retry_after=_wait(found.get("retry_after")),
        )
        mark = f"[request id: {shown(request_id)}] " if request_id else ""
        message = text.removeprefix(mark).removeprefix(str(where))
        if found.get("request"):
            return Told(RequestError(message, pipeline=where.pipeline), False)
        where.message, where.args = message, (message,)
        return Told(where, found.get("untouched", False))
    except (ValueError, TypeError, AttributeError):
        return Told(Fault(code, text), False)


def read_wait(text: str | None) -> float | None:
    """Return for how many seconds a server asks to stay away; None where it does not, or names a
    date, or no number that makes sense."""
    return _wait(int(text)) if text and text.isdecimal() and len(text) < 10 else None


def _wait(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _LONGEST_WAIT else None
