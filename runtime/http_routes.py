"""HTTP: a route for each operation but inference, which goes a shorter way."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .access import Access
from .awaiting import wait_until_done
from .compression import BodyTooLarge
from .http_body import GoneError, request_body
from .http_status import STATUS, TOO_LARGE, error_body, error_headers
from .protocols.operation import Arguments, Later, Operation
from .request import Code, RequestError
from .service import Service, explain

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def routes(
    service: Service, operations: Sequence[Operation], page: Sequence[Route] = ()
) -> Starlette:
    """Return the application for everything but inference; `page` is what people look at."""

    def endpoint(operation: Operation) -> Endpoint:
        return _unrouted if operation.answer is None else _answering(service, operation)

    made = [
        Route(path, endpoint(operation), methods=[method])
        for operation in operations
        for method, path in operation.routes
    ]
    made.sort(key=lambda route: route.path.count("{"))  # `models/stats` before `models/{name}`
    application = Starlette(
        routes=[*page, *made],
        exception_handlers={HTTPException: _on_http_exception},
    )
    application.router.redirect_slashes = False  # to a name that the caller gives
    return application


async def _unrouted(_: Request) -> Response:
    """Stand for inference, which is answered before it is routed: who asks for its path with
    another method is told which it has."""
    raise HTTPException(404)


def _guarded(service: Service, operation: Operation, respond: Endpoint) -> Endpoint:
    """Return what asks whether the caller may, and turns what goes wrong to a status."""

    async def handle(request: Request) -> Response:
        try:
            service.policy.require(operation.access, request.headers.get("authorization"))
            return await respond(request)
        except GoneError:
            return Response(status_code=STATUS[Code.CANCELLED])
        except BodyTooLarge as error:
            return _error(TOO_LARGE, str(error))
        except Exception as error:
            fault = explain(error)
            answer = _error(STATUS[fault.code], fault.message)
            answer.raw_headers += error_headers(fault)
            return answer

    return handle


def _answering(service: Service, operation: Operation) -> Endpoint:
    """Return what answers an operation with JSON, and a probe with its status too."""
    answer = operation.answer
    assert answer is not None

    async def respond(request: Request) -> Response:
        caller = service.policy.require(operation.access, request.headers.get("authorization"))
        brings = operation.access is Access.CONTROL and service.repository.takes_files
        limit = service.limits.body if brings else service.limits.arguments
        found = answer(service, await _arguments(request, service, limit), caller)
        if isinstance(found, Later):
            await wait_until_done(found.future)
            found = found.finish(found.future)
        good = operation.access is not Access.PROBE or all(found.values())
        return _json(found, 200 if good else STATUS[Code.UNAVAILABLE])

    return _guarded(service, operation, respond)


async def _arguments(request: Request, service: Service, limit: int) -> Arguments:
    """Return the members of the body and the names in the path, which go before."""
    members: Mapping[str, Any] = {}  # Any: JSON
    body = b""
    if request.method == "POST":
        body = await request_body(request, service, limit)
    if body.strip():
        try:
            members = _OBJECTS.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RequestError(f"the body is no JSON object: {error}") from None
    return {**members, **request.path_params}


_OBJECTS = msgspec.json.Decoder(dict[str, Any])  # Any: JSON


def _json(content: Any, status: int) -> Response:  # Any: JSON
    """Answer with JSON, never compressed: a stock client with asyncio offers to undo codings and
    does so for inference alone."""
    body = b"" if content is None else msgspec.json.encode(content)
    return Response(body, status, media_type="application/json")


def _error(status: int, message: str) -> Response:
    return Response(error_body(message), status, media_type="application/json")


async def _on_http_exception(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return _error(STATUS[Code.INTERNAL], "internal error in headrace")
    answer = _error(error.status_code, error.detail)
    if error.status_code == 405:
        answer.headers["allow"] = _methods(request)
    return answer


def _methods(request: Request) -> str:
    """Return which methods the path has that was asked for."""
    routes = [one for one in request.app.routes if isinstance(one, Route)]
    matching = [one for one in routes if one.path_regex.match(request.url.path)]
    return ", ".join(sorted({method for one in matching for method in one.methods or ()}))
