"""Headers that the operator lets through to stages, as parameters of a request."""

import re
from collections.abc import Mapping

from ..request import Request


def with_headers(
    request: Request, headers: Mapping[str, str], pattern: "re.Pattern[str]"
) -> Request:
    """Return the request with those headers as parameters whose whole names match.

    A header goes before a parameter of its name: it may be what a proxy says of the caller.
    """
    forwarded = {name: value for name, value in headers.items() if pattern.fullmatch(name)}
    if not forwarded:
        return request
    return request._replace(parameters={**request.parameters, **forwarded})
