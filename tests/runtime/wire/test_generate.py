"""Plain JSON in and out, once or as server-sent events."""

import json
from collections.abc import Iterator

import httpx
import pytest

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import Gate, Start, eventually, free_ports
from tests.runtime.wire.test_http import pending
from tests.runtime.wire.test_streams import SOURCE


@pytest.fixture
def http(one_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{one_server.addresses.http}", timeout=10) as client:
        yield client


@pytest.fixture(scope="module")
def streams() -> Iterator[httpx.Client]:
    engine = Engine(headrace.compile(SOURCE).plan, EngineConfig(workers=2))
    with (
        serve([engine], free_ports(Carrier.AUTO)) as server,
        httpx.Client(base_url=f"http://{server.addresses.http}", timeout=10) as client,
    ):
        yield client
    engine.close()


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        ("scalar_f32", {"x0": 1.5}, {"y0": 1.5}),
        ("scalar_f32", {"x0": [1.5]}, {"y0": 1.5}),
        ("scalar_string", {"x0": "grün"}, {"y0": "grün"}),
        ("scalar_bool", {"x0": True}, {"y0": True}),
        ("scalar_i64", {"x0": 2**63 - 1}, {"y0": 2**63 - 1}),
        ("echo_f32", {"x0": [1, 2.5]}, {"y0": [1.0, 2.5]}),
        ("echo_f32", {"x0": 3}, {"y0": 3.0}),
        ("echo_f32", {"x0": []}, {"y0": []}),
        ("matrix", {"x0": [[1, 2], [3, 4], [5, 6]]}, {"y0": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
        ("rows", {"x0": [1, 2, 3], "x1": "a"}, {"y0": [1.0, 2.0, 3.0], "y1": "a"}),
        (
            "rows",
            {"x0": [[1, 2, 3], [4, 5, 6]], "x1": ["a", "b"]},
            {"y0": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "y1": ["a", "b"]},
        ),
        ("words", {"x0": ["a", ""]}, {"y0": ["a", ""]}),
        ("optional", {"x0": [1, 2]}, {"y0": [1.0, 2.0], "y1": 0.5}),
    ],
)
def test_values_come_and_go_under_their_names(
    http: httpx.Client, model: str, given: dict[str, object], expected: dict[str, object]
) -> None:
    for path in (f"/v2/models/{model}/generate", f"/v2/models/{model}/versions/1/generate"):
        answer = http.post(path, json={"id": "7", **given})
        assert answer.status_code == 200, answer.text
        named = {"model_name": model, "model_version": "1", "id": "7"}
        assert answer.json() == named | expected


@pytest.mark.parametrize(
    ("body", "status", "complaint"),
    [
        ({"x0": "text"}, 400, "input `x0`"),
        ({}, 400, "`x0` is missing"),
        ({"x0": [[1], [2, 3]]}, 400, "x0"),
        ({"x0": None}, 400, "x0"),
        ({"x0": {"a": 1}}, 400, "x0"),
        ({"x0": [1], "other": [1, 2]}, 400, "no request"),
        ({"x0": [1], "timeout": -1}, 400, "`timeout`"),
        ({"x0": [1], "parameters": 5}, 400, "no request"),
        ({"x0": [1], "id": 7}, 400, "no request"),
    ],
)
def test_what_does_not_fit_is_refused(
    http: httpx.Client, body: dict[str, object], status: int, complaint: str
) -> None:
    answer = http.post("/v2/models/echo_f32/generate", json=body)
    assert (answer.status_code, complaint in answer.json()["error"]) == (status, True), answer.text


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"x0": ' + b"[" * 100_000, b"\xff"])
def test_b29_bodies_that_are_no_request_are_refused(http: httpx.Client, body: bytes) -> None:
    for suffix in ("generate", "generate_stream"):
        answer = http.post(f"/v2/models/echo_f32/{suffix}", content=body)
        assert answer.status_code == 400


def test_parameters_and_other_members_are_the_requests(http: httpx.Client) -> None:
    body = {"x0": [1], "timeout": 10_000_000, "temperature": 0.5, "stream": False}
    answer = http.post("/v2/models/echo_f32/generate", json=body | {"parameters": {"user": "me"}})
    assert answer.status_code == 200


def test_b13_an_error_of_a_stage_is_a_status_with_the_id(http: httpx.Client) -> None:
    for suffix in ("generate", "generate_stream"):
        body = {"text": "marker", "id": "k-9"}
        answer = http.post(f"/v2/models/fail/{suffix}", json=body)
        assert answer.status_code == 500
        for part in ("k-9", "stage `fail`", "the marker is here"):
            assert part in answer.json()["error"]
    assert http.post("/v2/models/nothing/generate", json={}).status_code == 404


def events(answer: httpx.Response) -> list[dict[str, object]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = answer.text.split("\n\n")
    assert blocks.pop() == ""
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def test_a_model_that_answers_once_is_one_event(http: httpx.Client) -> None:
    found = events(http.post("/v2/models/scalar_f32/generate_stream", json={"x0": 1.5}))
    assert found == [{"model_name": "scalar_f32", "model_version": "1", "y0": 1.5}]


def test_each_response_of_a_stream_is_an_event(streams: httpx.Client) -> None:
    body = {"most": 100, "id": "a"}
    found = events(streams.post("/v2/models/count/generate_stream", json=body))
    assert [one["n"] for one in found] == list(range(1, 101))
    assert {one["id"] for one in found} == {"a"}
    assert events(streams.post("/v2/models/count/generate_stream", json={"most": 0})) == []


def test_a_failure_before_the_first_response_is_a_status(streams: httpx.Client) -> None:
    answer = streams.post("/v2/models/count/generate_stream", json={"most": -1})
    assert answer.status_code == 500
    assert "`max` of the loop is -1" in answer.json()["error"]


def test_generate_gives_the_only_response_of_a_stream(streams: httpx.Client) -> None:
    answer = streams.post("/v2/models/count/generate", json={"most": 1, "id": "a"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {"id": "a", "model_name": "count", "model_version": "1", "n": 1}
    answer = streams.post("/v2/models/count/generate", json={"most": -1})
    assert "`max` of the loop is -1" in answer.json()["error"]


@pytest.mark.parametrize(("most", "count"), [(0, "no response"), (2, "more"), (1 << 40, "more")])
def test_generate_hides_no_response_of_a_stream(
    streams: httpx.Client, most: int, count: str
) -> None:
    answer = streams.post("/v2/models/count/generate", json={"most": most})
    assert answer.status_code == 501
    assert count in answer.json()["error"]
    assert "call generate_stream" in answer.json()["error"]


def test_a_reader_that_goes_away_takes_the_stream_along(streams: httpx.Client) -> None:
    """A stream that nobody reads stops after a few responses, and is dropped when its reader is
    gone: the next one finds a worker."""
    url = "/v2/models/count/generate_stream"
    for _ in range(8):
        with streams.stream("POST", url, json={"most": 10_000_000}) as answer:
            assert next(answer.iter_lines()).startswith("data: ")
    found = events(streams.post(url, json={"most": 3}))
    assert len(found) == 3


@pytest.mark.slow
def test_b23_a_client_that_goes_away_takes_its_request_along(
    start: Start, gates: tuple[Gate, Gate]
) -> None:
    server = start()
    url = f"http://{server.addresses.http}/v2/models/wait/generate"
    first, second = gates
    with httpx.Client(timeout=0.5) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(url, json={"path": str(first.path)})
        with pytest.raises(httpx.ReadTimeout):
            client.post(url, json={"path": str(second.path)})
    eventually(lambda: pending(server) == 0)
    first.entered()
    first.open()
    eventually(lambda: httpx.get(url.removesuffix("generate") + "ready").status_code == 200)
    assert second.was_never_entered()
