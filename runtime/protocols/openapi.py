"""What is served over HTTP, as an OpenAPI document.

It is made of the table that the routes are made of.
"""

import re
from collections.abc import Iterable
from typing import Any

from ..access import OPEN, Access, Policy
from .json_messages import body_schemas
from .operation import Operation

_NAMED = re.compile(r"\{(\w+)\}")
_JSON, _BINARY, _EVENTS = "application/json", "application/octet-stream", "text/event-stream"


def openapi(operations: Iterable[Operation], version: str, policy: Policy) -> dict[str, Any]:
    """Return the document. What nobody may do here is left out. Any: JSON."""
    paths: dict[str, dict[str, Any]] = {}  # Any: likewise
    for operation in operations:
        if policy.serves(operation.access):
            for method, path in operation.routes:
                described = _described(operation, method, path, policy)
                paths.setdefault(path, {})[method.lower()] = described
    request, response, schemas = body_schemas("#/components/schemas/{name}")
    schemas |= {
        "InferRequest": request,
        "InferResponse": response,
        "Error": {
            "type": "object",
            "properties": {"error": {"type": "string"}},
            "required": ["error"],
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "headrace: Open Inference Protocol v2", "version": version},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


# Any: JSON
def _described(operation: Operation, method: str, path: str, policy: Policy) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": _identifier(method, path),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _NAMED.findall(path)
        ],
        "responses": {
            "200": _answered(operation, path),
            "default": {"description": "It failed", "content": _of("Error")},
        },
    }
    if operation.access is Access.PROBE:
        described["responses"]["503"] = {"description": "No"}
    if method == "POST":
        described["requestBody"] = _body(operation, path)
    if operation.access not in OPEN or not policy.is_open(operation.access):
        described["security"] = [{"token": []}] if policy.tokens else []
    return described


def _identifier(method: str, path: str) -> str:
    words = re.findall(r"\w+", path.removeprefix("/v2"))
    return "_".join((method.lower(), *(words or ["server"])))


def _is_infer(operation: Operation) -> bool:
    return operation.rpc == "ModelInfer"


def _body(operation: Operation, path: str) -> dict[str, Any]:  # Any: JSON
    if _is_infer(operation):
        header = "binary tensors behind the JSON, whose length Inference-Header-Content-Length says"
        return {
            "required": True,
            "description": header,
            "content": _of("InferRequest") | {_BINARY: {}},
        }
    needed = bool(operation.required) or "generate" in path
    schema: dict[str, Any] = {"type": "object"}  # Any: JSON
    if operation.required:
        schema |= {
            "properties": {name: {"type": kind} for name, kind in operation.required},
            "required": [name for name, _ in operation.required],
        }
    return {"required": needed, "content": {_JSON: {"schema": schema}}}


def _answered(operation: Operation, path: str) -> dict[str, Any]:  # Any: JSON
    if operation.access is Access.PROBE:
        return {"description": "Yes"}
    if _is_infer(operation):
        return {"description": "The results", "content": _of("InferResponse") | {_BINARY: {}}}
    if path.endswith("generate_stream"):
        return {"description": "An event for each response", "content": {_EVENTS: {}}}
    return {"description": "It is done", "content": {_JSON: {}}}


def _of(schema: str) -> dict[str, Any]:  # Any: JSON
    return {_JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
