"""HTTP: the routes that are not inference, and the status of each kind of failure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .protocols.ext.model_configuration import model_config
from .protocols.metadata import model_metadata, server_metadata
from .protocols.models import Model
from .request import Code, Fault
from .service import Service, explain

STATUS: Mapping[Code, int] = MappingProxyType(
    {
        Code.INVALID: 400,
        Code.NOT_FOUND: 404,
        Code.OVERLOADED: 503,
        Code.UNAVAILABLE: 503,
        Code.DEADLINE: 503,
        Code.CANCELLED: 499,
        Code.UNSUPPORTED: 501,
        Code.FAILED: 500,
        Code.INTERNAL: 500,
    }
)

# Routes of extensions that are not served; that they are known makes it 501 and not 404.
_UNSERVED = (
    "/v2/models/stats",
    "/v2/models/{name}/stats",
    "/v2/models/{name}/versions/{version}/stats",
    "/v2/models/{name}/generate",
    "/v2/models/{name}/versions/{version}/generate",
    "/v2/models/{name}/generate_stream",
    "/v2/models/{name}/versions/{version}/generate_stream",
    "/v2/models/{name}/trace/setting",
    "/v2/trace/setting",
    "/v2/logging",
    "/v2/repository/{rest:path}",
    "/v2/systemsharedmemory/{rest:path}",
    "/v2/cudasharedmemory/{rest:path}",
)


def routes(service: Service, version: str) -> Starlette:
    """Return the application for everything but inference."""

    async def live(_: Request) -> Response:
        return Response()

    async def ready(_: Request) -> Response:
        return _readiness(service.ready)

    async def server(_: Request) -> Response:
        return _json(server_metadata(version))

    async def metadata(request: Request) -> Response:
        model = _model(service, request)
        return _json(model_metadata(model, service.versions(model.name)))

    async def model_ready(request: Request) -> Response:
        path = request.path_params
        return _readiness(service.model_ready(path["name"], path.get("version", "")))

    async def config(request: Request) -> Response:
        return _json(model_config(_model(service, request)))

    of_model = {"": metadata, "/ready": model_ready, "/config": config}
    return Starlette(
        routes=[
            Route("/v2", server),
            Route("/v2/health/live", live),
            Route("/v2/health/ready", ready),
            *(Route(path, _unserved, methods=["GET", "POST"]) for path in _UNSERVED),
            *(
                Route(f"/v2/models/{{name}}{version}{suffix}", endpoint)
                for version in ("", "/versions/{version}")
                for suffix, endpoint in of_model.items()
            ),
        ],
        exception_handlers={Fault: _on_fault, HTTPException: _on_http_exception},
    )


def _model(service: Service, request: Request) -> Model:
    path = request.path_params
    return service.find(path["name"], path.get("version", ""))


def _readiness(ready: bool) -> Response:
    return Response(status_code=200 if ready else STATUS[Code.UNAVAILABLE])


async def _unserved(request: Request) -> Response:
    raise Fault(Code.UNSUPPORTED, f"{request.scope['path']!a} belongs to an extension not served")


def _json(content: dict[str, Any], status: int = 200) -> Response:  # Any: JSON
    return Response(msgspec.json.encode(content), status, media_type="application/json")


async def _on_fault(_: Request, error: Exception) -> Response:
    fault = explain(error)
    return _json({"error": fault.message}, STATUS[fault.code])


async def _on_http_exception(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else STATUS[Code.INTERNAL]
    text = error.detail if isinstance(error, HTTPException) else "internal error in headrace"
    return _json({"error": text}, status)
