"""The standard health service: whether the server takes requests, for probes, which are open."""

from ..protocols.messages import message
from ..request import Code, Fault
from ..service import Service
from .answering import answering, parse
from .call import Methods, Watched
from .methods import SERVICE

_PACKAGE = "grpc.health.v1"
HEALTH = f"{_PACKAGE}.Health"


def health_methods(service: Service) -> Methods:
    """Return `Check` and `Watch`, for the server as a whole ("") and for the protocol's service.

    Who watches a service that is unknown is told so, and of no change.
    """
    request = message("HealthCheckRequest", _PACKAGE)
    response = message("HealthCheckResponse", _PACKAGE)

    def status() -> int:
        return response.SERVING if service.ready else response.NOT_SERVING

    def check(name: str) -> int:
        if name not in ("", SERVICE):
            raise Fault(Code.NOT_FOUND, "there is no such service")
        return status()

    def watch(payload: bytes) -> Watched:
        known = parse(request, payload).service in ("", SERVICE)

        def read() -> bytes:
            now = status() if known else response.SERVICE_UNKNOWN
            return response(status=now).SerializeToString()

        return Watched(read, service.watch)

    method = answering(request, lambda asked: response(status=check(asked.service)))
    return Methods({f"/{HEALTH}/Check": method}, {}, {f"/{HEALTH}/Watch": watch})
