"""Index, load and unload, as stock clients ask for them."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256

import httpx
import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from headrace.compiler.plan import Plan
from headrace.compiler.plan_file import to_bytes
from headrace.runtime.access import Access, Token, policy_of
from headrace.runtime.engine import EngineConfig
from headrace.runtime.protocols.limits import MIB
from headrace.runtime.repository.repository import Repository
from headrace.runtime.repository.version import Candidate
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.repository.plans import adding, failing
from tests.runtime.wire.conftest import eventually, free_ports
from tests.runtime.wire.stock import KINDS, Stock, stock

SECRET = "a-token-for-control"
BEARER = {"authorization": f"Bearer {SECRET}"}


class Folder:
    """What a repository finds: plans by app, and what cannot be read."""

    def __init__(self) -> None:
        self.plans: dict[str, float] = {"app": 1.0}
        self.broken: set[str] = {"broken"}

    def find(self, app: str) -> Mapping[int, Candidate]:
        if app in self.broken:
            return {1: Candidate(self._fail)}
        if app not in self.plans:
            return {}
        amount = self.plans[app]
        return {1: Candidate(lambda: adding(amount))}

    def _fail(self) -> Plan:
        raise ValueError("the secret/path/of/a.plan is torn")


@pytest.fixture
def folder() -> Folder:
    return Folder()


@pytest.fixture
def server(folder: Folder) -> Iterator[Server]:
    repository = Repository(EngineConfig(workers=2), find=folder.find)
    policy = policy_of((), [Token("ops", SECRET, frozenset({Access.CONTROL}))])
    with serve(repository, free_ports(Carrier.AUTO, policy=policy)) as server:
        yield server
    repository.close()


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Stock]:
    with stock(request.param, server) as client:
        yield client


def index(client: Stock, **options: object) -> dict[str, tuple[str, str]]:
    """States and reasons by model."""
    found = client.get_model_repository_index(**options)
    models = found if client.is_http else found.get("models", [])
    return {one["name"]: (one["state"], one.get("reason", "")) for one in models}


def ask(client: Stock) -> float:
    array = np.array([1.0], np.float32)
    return float(client.infer("p", [client.tensor("x", "FP32", array)]).as_numpy("y")[0])


def test_a_model_is_loaded_changed_and_unloaded(client: Stock, folder: Folder) -> None:
    assert index(client) == {}
    client.load_model("app", headers=BEARER)
    assert client.is_model_ready("p")
    assert ask(client) == 2.0
    assert index(client)["p"] == ("READY", "")
    folder.plans["app"] = 5.0
    client.load_model("p", headers=BEARER)  # by the name of a pipeline of it
    assert ask(client) == 6.0
    client.unload_model("p", unload_dependents=True, headers=BEARER)
    assert not client.is_model_ready("p")
    with pytest.raises(InferenceServerException, match="Request for unknown model"):
        ask(client)
    eventually(lambda: ("UNAVAILABLE", "unloaded") in index(client).values())


def test_a_load_that_fails_says_so_and_what_was_served_still_is(
    client: Stock, folder: Folder
) -> None:
    client.load_model("app", headers=BEARER)
    folder.broken.add("app")
    with pytest.raises(InferenceServerException, match="failed to load 'app'"):
        client.load_model("app", headers=BEARER)
    assert ask(client) == 2.0
    with pytest.raises(InferenceServerException, match="failed to load 'broken'"):
        client.load_model("broken", headers=BEARER)
    state, reason = index(client)["broken"]
    assert (state, reason) == ("UNAVAILABLE", "it could not be loaded")  # to who may not load
    _, reason = index(client, headers=BEARER)["broken"]
    assert "torn" in reason


@pytest.mark.parametrize("name", ["nothing", "..", "../app", "a/b", "", "app\n", "x" * 300])
def test_what_there_is_not_is_not_loaded_and_not_unloaded(server: Server, name: str) -> None:
    with stock("grpc", server) as client:
        for call in (client.load_model, client.unload_model):
            with pytest.raises(InferenceServerException) as error:
                call(name, headers=BEARER)
            assert error.value.status() == "StatusCode.NOT_FOUND"
            assert str(error.value.message()).isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_only_who_shows_the_token_may_load_and_unload(server: Server, kind: str) -> None:
    with stock(kind, server) as client:
        calls: list[Callable[..., object]] = [client.load_model, client.unload_model]
        for call in calls:
            for headers in ({}, {"authorization": "Bearer of-bad-news-and-more"}):
                with pytest.raises(InferenceServerException, match="token"):
                    call("app", headers=headers)
        assert index(client) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_neither_a_configuration_nor_a_file_comes_from_a_caller(server: Server, kind: str) -> None:
    with stock(kind, server) as client, pytest.raises(InferenceServerException) as error:
        client.load_model("app", headers=BEARER, config=json.dumps({"backend": "python"}))
    assert "plans come from the server's own folder" in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_who_may_load_brings_plans_that_are_data_where_the_operator_lets_him(kind: str) -> None:
    """What a caller has brought is served until the next load, and code never is."""
    repository = Repository(EngineConfig(workers=1), find=Folder().find, takes_files=True)
    policy = policy_of((), [Token("ops", SECRET, frozenset({Access.CONTROL}))])
    given, code = to_bytes(adding(7.0)), to_bytes(failing())
    wrong = {
        "no plan of a version": {"file:../model.plan": given},
        "called `1/model.plan`": {"file:1/model.onnx": given},
        "two files of version 1": {"file:1/model.plan": given, "file:01/model.plan": given},
        "not a plan": {"file:1/model.plan": b"something else"},
        "runs on `python`, which is code": {"file:1/model.plan": code},
    }
    with (
        serve(repository, free_ports(Carrier.AUTO, policy=policy)) as server,
        stock(kind, server) as client,
    ):
        with pytest.raises(InferenceServerException, match="token"):
            client.load_model("app", files={"file:1/model.plan": given})
        client.load_model("app", headers=BEARER, files={"file:3/model.plan": given})
        assert ask(client) == 8.0
        for said, files in wrong.items():
            with pytest.raises(InferenceServerException, match=said):
                client.load_model("app", headers=BEARER, files=files)
        assert ask(client) == 8.0
        client.load_model("app", headers=BEARER)
        assert ask(client) == 2.0
    repository.close()


def test_code_comes_from_callers_where_that_is_let_too_and_a_body_is_as_long_as_any() -> None:
    repository = Repository(EngineConfig(workers=1), takes_files=True, takes_code=True)
    policy = policy_of((Access.CONTROL,), ())
    plan, filler = failing(), bytes(2 * MIB)
    long = replace(plan, blobs=(*plan.blobs, (sha256(filler).hexdigest(), filler)))
    with (
        serve(repository, free_ports(Carrier.AUTO, policy=policy)) as server,
        stock("http", server) as client,
    ):
        client.load_model("new", files={"file:1/model.plan": to_bytes(long)})
        assert index(client) == {"p": ("READY", "")}
    repository.close()


def test_only_what_is_ready_is_told_when_that_is_asked(server: Server) -> None:
    with httpx.Client(base_url=f"http://{server.addresses.http}", headers=BEARER) as http:
        assert http.post("/v2/repository/models/app/load").status_code == 200
        assert http.post("/v2/repository/models/broken/load").status_code == 400
        every = http.post("/v2/repository/index").json()
        ready = http.post("/v2/repository/index", json={"ready": True}).json()
        assert [one["name"] for one in every] == ["broken", "p"]
        assert [one["name"] for one in ready] == ["p"]
        for body in (b"[]", b"{", b"1", b"[" * 100_000, b"\xff"):
            assert http.post("/v2/repository/index", content=body).status_code == 400
        assert http.post("/v2/repository/index", json={"ready": "yes"}).status_code == 400
        named = http.post("/v2/repository/index", json={"repository_name": "x"})
        assert named.status_code == 400
