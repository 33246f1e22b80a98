"""Statistics over both protocols, which agree with the calls made to the request."""

from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from headrace.runtime.server import Server
from tests.runtime.wire.conftest import Start
from tests.runtime.wire.stock import KINDS, Stock, stock


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, start: Start) -> Iterator[Stock]:
    with stock(request.param, start(workers=2)) as client:
        yield client


def of(client: Stock, name: str = "", version: str = "") -> list[dict[str, object]]:
    found = client.get_inference_statistics(name, version)
    return found["model_stats"]


def whole(value: object) -> int:
    """A number, which gRPC's JSON has as a text and leaves out where it is 0."""
    return int(str(value or 0))


def counts(stats: dict[str, object]) -> dict[str, int]:
    kinds = stats["inference_stats"]
    assert isinstance(kinds, dict)
    return {name: whole(one.get("count", 0)) for name, one in kinds.items()}


def rows(client: Stock, count: int) -> None:
    numbers = np.zeros((count, 3), np.float32)
    words = np.array([["a"]] * count, object).reshape(count, 1)
    client.infer(
        "rows", [client.tensor("x0", "FP32", numbers), client.tensor("x1", "BYTES", words)]
    )


def test_counts_are_those_of_the_calls_made(client: Stock) -> None:
    good = np.array(["good"], object)
    bad = np.array(["marker"], object)
    for _ in range(3):
        client.infer("fail", [client.tensor("text", "BYTES", good)])
    for _ in range(2):
        with pytest.raises(InferenceServerException, match="the marker is here"):
            client.infer("fail", [client.tensor("text", "BYTES", bad)])
    (stats,) = of(client, "fail", "1")
    assert (stats["name"], stats["version"]) == ("fail", "1")
    assert whole(stats["inference_count"]) == 3
    assert whole(stats["execution_count"]) == 5  # those that failed among them
    found = counts(stats)
    assert (found["success"], found["fail"], found["compute_infer"]) == (3, 2, 3)
    kinds = stats["inference_stats"]
    assert isinstance(kinds, dict)
    assert whole(kinds["success"]["ns"]) > 0


def test_rows_are_counted_by_how_many_came_together(client: Stock) -> None:
    for count in (1, 4, 4, 8, 0):
        rows(client, count)
    (stats,) = of(client, "rows")
    assert whole(stats["inference_count"]) == 17
    assert whole(stats["execution_count"]) == 4  # nothing runs for no rows
    batches = stats["batch_stats"]
    assert isinstance(batches, list)
    by_size = {
        whole(one.get("batch_size")): whole(one["compute_infer"].get("count")) for one in batches
    }
    assert by_size == {1: 1, 4: 2, 8: 1}


def test_without_a_name_every_model_is_told_and_an_unknown_one_is_none(client: Stock) -> None:
    names = {stats["name"] for stats in of(client)}
    assert {"fail", "rows", "two"} <= names
    with pytest.raises(InferenceServerException, match="Request for unknown model"):
        of(client, "nothing")
    with pytest.raises(InferenceServerException, match="Request for unknown model"):
        of(client, "two", "9")


def test_statistics_and_metrics_say_the_same(one_server: Server) -> None:
    body = {"inputs": [{"name": "x0", "datatype": "INT8", "shape": [1], "data": [1]}]}
    with httpx.Client(base_url=f"http://{one_server.addresses.http}") as http:
        for _ in range(3):
            assert http.post("/v2/models/echo_i8/infer", json=body).status_code == 200
        assert http.post("/v2/models/echo_i8/infer", json={"inputs": []}).status_code == 400
        stats = http.get("/v2/models/echo_i8/stats").json()["model_stats"][0]
    text = httpx.get(f"http://{one_server.addresses.metrics}/metrics").text
    told = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if 'model="echo_i8"' in line
    }
    labels = '{model="echo_i8",version="1"}'
    assert stats["inference_stats"]["success"]["count"] == 3
    assert told[f"nv_inference_request_success{labels}"] == 3
    assert told[f"nv_inference_count{labels}"] == stats["inference_count"]
    failures = sum(n for name, n in told.items() if name.startswith("nv_inference_request_failure"))
    assert stats["inference_stats"]["fail"]["count"] == failures == 1
