"""Every route and every RPC: each has a kind that the policy is asked about, on both protocols."""

import re
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
from starlette.routing import Route

from headrace.runtime.access import OPEN, Access, Policy, Token, policy_of
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.grpc.health import health_methods
from headrace.runtime.grpc.methods import inference_methods
from headrace.runtime.grpc.reflection import reflection_methods
from headrace.runtime.http_routes import routes
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.protocols.messages import service_descriptor
from headrace.runtime.protocols.operations import all_operations
from headrace.runtime.regions import RegionsConfig
from headrace.runtime.repository.repository import Repository
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from headrace.runtime.service import Service
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.plans import toy_plan

OPERATIONS = all_operations("1")
PROBE, READ, INFER = Access.PROBE, Access.READ, Access.INFER
CONTROL, MEMORY, SETTINGS = Access.CONTROL, Access.MEMORY, Access.SETTINGS

MODEL = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")


def of_model(method: str, suffix: str, access: Access) -> dict[tuple[str, str], Access]:
    return {(method, path + suffix): access for path in MODEL}


def of_regions(kind: str) -> dict[tuple[str, str], Access]:
    path = f"/v2/{kind}sharedmemory"
    return {
        ("GET", f"{path}/status"): MEMORY,
        ("GET", f"{path}/region/{{name}}/status"): MEMORY,
        ("POST", f"{path}/region/{{name}}/register"): MEMORY,
        ("POST", f"{path}/unregister"): MEMORY,
        ("POST", f"{path}/region/{{name}}/unregister"): MEMORY,
    }


ROUTES: dict[tuple[str, str], Access] = {
    ("GET", "/v2"): READ,
    ("GET", "/v2/openapi.json"): READ,
    ("GET", "/v2/health/live"): PROBE,
    ("GET", "/v2/health/ready"): PROBE,
    **of_model("GET", "", READ),
    **of_model("GET", "/ready", PROBE),
    **of_model("GET", "/config", READ),
    **of_model("GET", "/stats", READ),
    **of_model("GET", "/plan", READ),
    **of_model("GET", "/stages", READ),
    ("GET", "/v2/models/stats"): READ,
    **of_model("POST", "/infer", INFER),
    **of_model("POST", "/generate", INFER),
    **of_model("POST", "/generate_stream", INFER),
    ("POST", "/v2/repository/index"): READ,
    ("POST", "/v2/repository/models/{model_name}/load"): CONTROL,
    ("POST", "/v2/repository/models/{model_name}/unload"): CONTROL,
    **of_regions("system"),
    **of_regions("cuda"),
    **{
        (method, path): SETTINGS
        for method in ("GET", "POST")
        for path in ("/v2/logging", "/v2/trace/setting", "/v2/models/{model_name}/trace/setting")
    },
}

METHODS: dict[str, Access] = {
    "ServerLive": PROBE,
    "ServerReady": PROBE,
    "ModelReady": PROBE,
    "ServerMetadata": READ,
    "ModelMetadata": READ,
    "ModelConfig": READ,
    "ModelStatistics": READ,
    "RepositoryIndex": READ,
    "ModelInfer": INFER,
    "ModelStreamInfer": INFER,
    "RepositoryModelLoad": CONTROL,
    "RepositoryModelUnload": CONTROL,
    "SystemSharedMemoryStatus": MEMORY,
    "SystemSharedMemoryRegister": MEMORY,
    "SystemSharedMemoryUnregister": MEMORY,
    "CudaSharedMemoryStatus": MEMORY,
    "CudaSharedMemoryRegister": MEMORY,
    "CudaSharedMemoryUnregister": MEMORY,
    "TraceSetting": SETTINGS,
    "LogSettings": SETTINGS,
}

SECRET = "a-token-for-everything"
EVERYTHING = policy_of((), [Token("all", SECRET, frozenset(Access))])
CLOSED = frozenset(Access) - {PROBE}


def test_every_route_has_the_kind_that_is_listed_here() -> None:
    said = {route: operation.access for operation in OPERATIONS for route in operation.routes}
    assert said == ROUTES


def test_every_rpc_has_the_kind_that_is_listed_here() -> None:
    said = {operation.rpc: operation.access for operation in OPERATIONS if operation.rpc}
    assert said == METHODS
    assert set(METHODS) == {method.name for method in service_descriptor().methods}


def test_nothing_is_routed_that_is_not_listed() -> None:
    service = Service(Repository(), Limits())
    application = routes(service, OPERATIONS)
    routed = {
        (method, route.path)
        for route in application.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert len(application.routes) == len(ROUTES)
    assert routed == set(ROUTES)
    methods = (
        inference_methods(service, OPERATIONS)
        | health_methods(service)
        | reflection_methods((), service.policy)
    )
    paths = {*methods.unary, *methods.streams, *methods.watches}
    service.repository.close()
    assert paths == {
        *(f"/inference.GRPCInferenceService/{name}" for name in METHODS),
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    }


def serving(policy: Policy, carrier: Carrier = Carrier.AUTO) -> Iterator[Server]:
    engine = Engine(toy_plan(), EngineConfig(workers=2))
    config = free_ports(carrier, policy=policy, regions=RegionsConfig())
    with serve([engine], config) as server:
        yield server
    engine.close()


@pytest.fixture(scope="module", params=[Carrier.NATIVE, Carrier.GRPCIO], ids=lambda c: c.value)
def closed(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that asks everybody for a token."""
    yield from serving(EVERYTHING, request.param)


@pytest.fixture(scope="module")
def default() -> Iterator[Server]:
    """A server as it is when nobody says anything."""
    engine = Engine(toy_plan(), EngineConfig(workers=2))
    with serve([engine], free_ports(Carrier.AUTO)) as server:
        yield server
    engine.close()


def filled(path: str) -> str:
    return re.sub(r"\{\w*name\}", "two", path).replace("{version}", "1")


def ask(server: Server, route: tuple[str, str], **headers: str) -> httpx.Response:
    url = f"http://{server.addresses.http}{filled(route[1])}"
    return httpx.request(route[0], url, headers=headers, timeout=10)


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
@pytest.mark.slow
def test_a_route_that_takes_a_token_is_closed_without_it(
    closed: Server, route: tuple[str, str]
) -> None:
    for headers in ({}, {"authorization": "Bearer nothing-of-the-kind"}):
        answer = ask(closed, route, **headers)
        if ROUTES[route] in CLOSED:
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert SECRET not in answer.text
    answer = ask(closed, route, authorization=f"Bearer {SECRET}")
    assert answer.status_code not in (401, 403, 405)
    # it was routed: there is no folder to load from, and another test may have unloaded the model
    missing = ("failed to load", "Request for unknown model")
    assert answer.status_code != 404 or any(said in answer.text for said in missing)


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
@pytest.mark.slow
def test_a_route_that_changes_the_server_is_nobodys_by_default(
    default: Server, route: tuple[str, str]
) -> None:
    for headers in ({}, {"authorization": f"Bearer {SECRET}"}):
        answer = ask(default, route, **headers)
        assert (answer.status_code == 403) == (ROUTES[route] not in OPEN)


def call(server: Server, name: str, *metadata: tuple[str, str]) -> grpc.StatusCode:
    """The status of a call with an empty message."""
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        method: Any = channel.unary_unary(f"/inference.GRPCInferenceService/{name}")
        try:
            method(b"", metadata=metadata, timeout=10)
        except grpc.RpcError as error:
            failed: Any = error
            return failed.code()
    return grpc.StatusCode.OK


UNARY = sorted(set(METHODS) - {"ModelStreamInfer"})


@pytest.mark.parametrize("name", UNARY)
def test_an_rpc_that_takes_a_token_is_closed_without_it(closed: Server, name: str) -> None:
    unknown = (("authorization", "Bearer nothing-of-the-kind"),)
    if METHODS[name] in CLOSED:
        assert call(closed, name) is grpc.StatusCode.UNAUTHENTICATED
        assert call(closed, name, *unknown) is grpc.StatusCode.UNAUTHENTICATED
    status = call(closed, name, ("authorization", f"Bearer {SECRET}"))
    assert status not in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


@pytest.mark.parametrize("name", UNARY)
def test_an_rpc_that_changes_the_server_is_nobodys_by_default(default: Server, name: str) -> None:
    status = call(default, name, ("authorization", f"Bearer {SECRET}"))
    assert (status is grpc.StatusCode.PERMISSION_DENIED) == (METHODS[name] not in OPEN)


@pytest.mark.parametrize(
    "path",
    [
        "/v2/repository/models/two/unload",
        "/v2/repository/models/two/unload/",
        "//v2/repository/models/two/unload",
        "/v2//repository/models/two/unload",
        "/v2/./repository/models/two/unload",
        "/v2/x/../repository/models/two/unload",
        "/v2/%72epository/models/two/unload",
        "/v2/repository%2Fmodels/two/unload",
        "/v2/repository/models/%74wo/unload",
        "/v2/repository/models/two/%75nload",
        "/v2/repository/models/two/unload?x=1",
        "/v2/repository/models/two/unload;x",
        "/V2/Repository/Models/two/Unload",
    ],
)
def test_no_spelling_of_a_path_goes_round_the_policy(default: Server, path: str) -> None:
    address = str(default.addresses.http)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        status = int(connection.makefile("rb").readline().split()[1])
    assert status in (307, 403, 404)
    assert httpx.get(f"http://{address}/v2/models/two/ready").status_code == 200


def test_the_document_lists_the_routes_that_are_served_and_no_others(
    default: Server, closed: Server
) -> None:
    for server, kinds in ((default, OPEN), (closed, frozenset(Access))):
        url = f"http://{server.addresses.http}/v2/openapi.json"
        document = httpx.get(url, headers={"authorization": f"Bearer {SECRET}"}).json()
        told = {
            (method.upper(), path)
            for path, methods in document["paths"].items()
            for method in methods
        }
        assert told == {route for route, access in ROUTES.items() if access in kinds}


def test_the_document_is_one_of_openapi(closed: Server) -> None:
    url = f"http://{closed.addresses.http}/v2/openapi.json"
    document = httpx.get(url, headers={"authorization": f"Bearer {SECRET}"}).json()
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/(\w+)"', str(document).replace("'", '"'))) <= set(
        schemas
    )
    register = document["paths"]["/v2/systemsharedmemory/region/{name}/register"]["post"]
    body = register["requestBody"]
    assert body["required"]
    assert body["content"]["application/json"]["schema"]["required"] == ["key", "byte_size"]
    identifiers: list[str] = []
    for path, methods in document["paths"].items():
        for method in methods.values():
            identifiers.append(method["operationId"])
            named = {parameter["name"] for parameter in method["parameters"]}
            assert named == set(re.findall(r"\{(\w+)\}", path))
            assert "200" in method["responses"]
    assert len(set(identifiers)) == len(identifiers)


def extensions(server: Server) -> set[str]:
    url = f"http://{server.addresses.http}/v2"
    return set(httpx.get(url, headers={"authorization": f"Bearer {SECRET}"}).json()["extensions"])


def test_metadata_lists_the_extensions_that_are_served(default: Server, closed: Server) -> None:
    always = {
        "binary_tensor_data",
        "classification",
        "generate",
        "headrace_plan",
        "headrace_stages",
        "model_configuration",
        "parameters",
        "schedule_policy",
        "sequence",
        "sequence(string_id)",
        "statistics",
    }
    assert extensions(default) == always
    assert extensions(closed) == always | {
        "logging",
        "model_repository",
        "model_repository(unload_dependents)",
        "system_shared_memory",
    }
