"""The standard health service: whether the server takes requests, for probes."""

from ..protocols.messages import message
from ..request import Code, Fault
from ..service import Service
from .answering import answering
from .call import Methods
from .methods import SERVICE

_HEALTH = "grpc.health.v1"


def health_methods(service: Service) -> Methods:
    """Return `Check`, for the server as a whole ("") and for the protocol's service."""
    response = message("HealthCheckResponse", _HEALTH)

    def check(name: str) -> int:
        if name not in ("", SERVICE):
            raise Fault(Code.NOT_FOUND, "there is no such service")
        return response.SERVING if service.ready else response.NOT_SERVING

    request = message("HealthCheckRequest", _HEALTH)
    method = answering(request, lambda asked: response(status=check(asked.service)))
    return Methods({f"/{_HEALTH}.Health/Check": method}, {})
