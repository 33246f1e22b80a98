"""Extension: free parameters of a request, which stages may read, and headers as such."""

import re
from collections.abc import Mapping

from ...request import Request
from ..parameters import Parameters

NAMES = ("parameters",)

_OURS = frozenset({"timeout", "priority", "sequence_id", "sequence_start", "sequence_end"})


def free_parameters(parameters: Parameters) -> Parameters:
    """Return what the protocol itself has no use for."""
    return {name: value for name, value in parameters.items() if name not in _OURS}


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
