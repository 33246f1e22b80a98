"""Serves the page: a few files that are read once, with headers that let it load nothing else."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",  # asked for again each time, and sent when it has changed
}


def page_routes() -> list[Route]:
    """Return the routes: the page at `/`, and what it is made of below `/page/`."""
    static = sorted(
        (files(__name__.rpartition(".")[0]) / "static").iterdir(), key=lambda file: file.name
    )
    return [
        Route(
            "/" if file.name == "index.html" else f"/page/{file.name}",
            _serving(file.read_bytes(), _TYPES["." + file.name.rpartition(".")[2]]),
        )
        for file in static
    ]


def _serving(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {**_HEADERS, "etag": tag}

    async def serve(request: Request) -> Response:
        known = request.headers.get("if-none-match", "")
        if tag in (one.strip().removeprefix("W/") for one in known.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    return serve
