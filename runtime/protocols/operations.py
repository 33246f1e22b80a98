"""Every operation that a server knows, those of the extensions included.

Both front ends make their methods and routes of this table, and ask the policy for each by its
kind: what is not in it is not served.
"""

from concurrent.futures import Future
from typing import Any

from ..access import Access, Caller
from ..service import Service
from .ext import extensions, operations
from .metadata import SERVER_NAME, model_metadata, server_metadata
from .openapi import openapi
from .operation import Arguments, Operation, of_model, text, told


def all_operations(version: str, name: str = SERVER_NAME) -> tuple[Operation, ...]:
    """Return all of them. `version` and `name` are the server's, for its metadata."""

    def metadata(service: Service, _: Arguments, __: Caller) -> Any:  # Any: JSON
        return server_metadata(name, version, extensions(service))

    def document(service: Service, _: Arguments, __: Caller) -> Any:  # Any: JSON
        return openapi(table, version, service.policy)

    table = (
        Operation(
            "ServerLive",
            Access.PROBE,
            "Whether the server runs",
            (("GET", "/v2/health/live"),),
            lambda _, __, ___: {"live": True},
        ),
        Operation(
            "ServerReady",
            Access.PROBE,
            "Whether the server takes requests, and all that it serves can answer them",
            (("GET", "/v2/health/ready"),),
            lambda service, _, __: _ready(service.ready_everywhere()),
        ),
        Operation(
            "ModelReady",
            Access.PROBE,
            "Whether a model answers requests",
            of_model("GET", "/ready"),
            _model_ready,
        ),
        Operation(
            "ServerMetadata",
            Access.READ,
            "The server's name, version and extensions",
            (("GET", "/v2"),),
            metadata,
        ),
        Operation(
            "ModelMetadata",
            Access.READ,
            "A model's inputs and outputs",
            of_model("GET", ""),
            _model_metadata,
        ),
        Operation("ModelInfer", Access.INFER, "Run a model", of_model("POST", "/infer")),
        Operation("ModelStreamInfer", Access.INFER, "Run models, any number of times"),
        *operations(),
        Operation("", Access.READ, "This document", (("GET", "/v2/openapi.json"),), document),
    )
    return table


def _ready(ready: "bool | Future[bool]") -> Any:  # Any: JSON
    return told(ready, lambda found: {"ready": found})


def _model_ready(service: Service, asked: Arguments, _: Caller) -> Any:  # Any: JSON
    model = service.find(text(asked, "name"), text(asked, "version"))
    return _ready(service.ready_everywhere(model.name, model.version))


def _model_metadata(service: Service, asked: Arguments, _: Caller) -> Any:  # Any: JSON
    version = text(asked, "version")
    model = service.find(text(asked, "name"), version)
    return model_metadata(model, () if version else service.versions(model.name))
