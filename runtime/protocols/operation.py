"""What callers may ask of a server besides inference, said once for both protocols.

An operation takes the JSON of its arguments and gives JSON. Over HTTP those are the names in the
path and the members of the body; over gRPC the fields of a message. `takes` and `gives` are for
those whose message differs from their JSON.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from google.protobuf import json_format

from ..access import Access, Caller
from ..request import RequestError
from ..service import Service
from .names import shown

Arguments: TypeAlias = Mapping[str, Any]  # Any: JSON


class Later(NamedTuple):
    """An answer that is not there yet; `finish` makes it of the future when that is done."""

    future: Future[Any]  # Any: `finish` knows
    finish: Callable[[Future[Any]], Any]  # Any: JSON


Found = TypeVar("Found")


def told(found: "Found | Future[Found]", tell: Callable[[Found], Any]) -> Any:  # Any: JSON
    """Answer with what `tell` makes of what was found, or is going to be."""
    if isinstance(found, Future):

        def finish(done: "Future[Found]") -> Any:  # Any: JSON
            return tell(done.result())

        return Later(found, finish)
    return tell(found)


Answer: TypeAlias = Callable[[Service, Arguments, Caller], Any]  # Any: JSON, or Later


def fields(message: Any) -> dict[str, Any]:  # Any: a message in, JSON out
    """Return the fields of a message by name, those that have their default included."""
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def same(answer: Any) -> Any:  # Any: JSON
    return answer


def as_message(kind: Any, content: Any) -> Any:  # Any: a message's class, its JSON, the message
    """Return the message whose JSON form is `content`; None is the empty one."""
    return json_format.ParseDict(content or {}, kind())


@dataclass(frozen=True, slots=True)
class Operation:
    """`rpc` is its method, where gRPC has one; `routes` are the method and path over HTTP, with
    names in braces. Without an `answer` each protocol has its own way (inference). `required` are
    the members that a body must have, with their types in JSON."""

    rpc: str
    access: Access
    summary: str
    routes: tuple[tuple[str, str], ...] = ()
    answer: Answer | None = None
    takes: Callable[[Any], Arguments] = fields  # Any: a message
    gives: Callable[[Any], Any] = same  # Any: JSON
    required: tuple[tuple[str, str], ...] = ()


def of_model(method: str, suffix: str) -> tuple[tuple[str, str], ...]:
    """Return the two routes of what is asked of a model: of its newest version, and of any."""
    return tuple(
        (method, f"/v2/models/{{name}}{version}{suffix}") for version in ("", "/versions/{version}")
    )


def text(arguments: Arguments, name: str) -> str:
    """Return an argument that must be a text; empty when it is not given."""
    value = arguments.get(name, "")
    if isinstance(value, str):
        return value
    raise RequestError(f"`{name}` must be a text, got {shown(str(value))}")


def number(arguments: Arguments, name: str) -> int:
    """Return an argument that must be a whole number from 0; 0 when it is not given."""
    value = arguments.get(name, 0)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise RequestError(f"`{name}` must be a whole number from 0, got {shown(str(value))}")


def members(arguments: Arguments, name: str) -> Mapping[str, Any]:  # Any: JSON
    """Return an argument that must be an object; empty when it is not given."""
    value = arguments.get(name) or {}
    if isinstance(value, Mapping):
        return value
    raise RequestError(f"`{name}` must be an object, got {shown(str(value))}")
