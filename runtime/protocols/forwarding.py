"""Headers that the operator lets through to stages, as parameters of a request.

The names are the caller's, so that no pattern may take long over one: a repetition inside a
repetition doubles the ways to match with each character.
"""

import re
from collections.abc import Iterable, Mapping
from re import _parser  # pyright: ignore - nothing public tells what a pattern consists of
from typing import Any

from ..request import Request

_LONGEST = 128


def read_pattern(text: str) -> "re.Pattern[str]":
    """Return the pattern; raises ValueError where it is none, or may take for ever."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"`{text}` is no pattern: {error}") from None
    if _branches(_parser.parse(text), repeated=False):
        raise ValueError(f"`{text}` repeats what can be matched in many ways, and may never end")
    return pattern


def _branches(nodes: Iterable[Any], repeated: bool) -> bool:  # Any: as re has it
    """Whether what is repeated can be matched in more ways than one."""
    for kind, value in nodes:
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = value
                if (repeated and least != most) or _branches(inner, repeated or most > 1):
                    return True
            case "BRANCH":
                if repeated or any(_branches(one, repeated) for one in value[1]):
                    return True
            case "SUBPATTERN":
                if _branches(value[-1], repeated):
                    return True
            case "ASSERT" | "ASSERT_NOT":
                if _branches(value[1], repeated):
                    return True
            case _:
                pass
    return False


def with_headers(
    request: Request, headers: Mapping[str, str], pattern: "re.Pattern[str]"
) -> Request:
    """Return the request with those headers as parameters whose whole names match.

    A header goes before a parameter of its name: it may be what a proxy says of the caller.
    """
    forwarded = {
        name: value
        for name, value in headers.items()
        if len(name) <= _LONGEST and pattern.fullmatch(name)
    }
    if not forwarded:
        return request
    return request._replace(parameters={**request.parameters, **forwarded})
