"""The standard health service: whether the server takes requests, for probes, which are open."""

from concurrent.futures import Future

from ..protocols.messages import message
from ..request import Code, Fault
from ..service import Service
from .call import Headers, Methods, Pending, Watched, call_error
from .methods import SERVICE
from .parsing import parse

_PACKAGE = "grpc.health.v1"
HEALTH = f"{_PACKAGE}.Health"


def health_methods(service: Service) -> Methods:
    """Return `Check` and `Watch`, for the server as a whole ("") and for the protocol's service.

    Who watches a service that is unknown is told so, and of no change.
    """
    request = message("HealthCheckRequest", _PACKAGE)
    response = message("HealthCheckResponse", _PACKAGE)

    def said(status: int) -> bytes:
        return response(status=status).SerializeToString()

    def serving(ready: bool) -> bytes:
        return said(response.SERVING if ready else response.NOT_SERVING)

    def status() -> bytes | Pending:
        ready = service.ready_everywhere()
        if isinstance(ready, Future):

            def finish(done: "Future[bool]") -> bytes:
                return serving(done.result())

            return Pending(ready, finish)
        return serving(ready)

    def is_known(payload: bytes) -> bool:
        return parse(request, payload).service in ("", SERVICE)

    def check(payload: bytes, _: float | None, __: Headers) -> bytes | Pending:
        if not is_known(payload):
            raise call_error(Fault(Code.NOT_FOUND, "there is no such service"))
        return status()

    def watch(payload: bytes) -> Watched:
        if is_known(payload):
            return Watched(status, service.watch)
        return Watched(lambda: said(response.SERVICE_UNKNOWN), service.watch)

    return Methods({f"/{HEALTH}/Check": check}, {}, {f"/{HEALTH}/Watch": watch})
