"""What a plan looks like and what its stages do: the counts are those of the calls."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.repository import Repository
from headrace.runtime.request import Request
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import ServerConfig
from tests.runtime.wire.conftest import eventually

SOURCE = """
fn halve(x: f32) -> (y: f32) = python "stages.py:halve"
fn must(x: f32) -> (y: f32) = python "stages.py:must"
fn hold(gate: string) -> (y: string) = python "stages.py:hold"

pipeline half(x: f32, least: f32 = 0.5) -> (y: f32, z: f32) {
    y = if x > least { halve(x) } else { x }
    return y = y, z = must(y)
}

pipeline other(x: f32) -> (y: f32) {
    return y = halve(x)
}

pipeline gated(gate: string) -> (y: string) {
    return y = hold(gate)
}

schedule gated on "default" {
    resources { key = 1 }
    hold { resources { key = 1 } }
}
"""

STAGES = """
def halve(x):
    return x / 2


def must(x):
    if x == 0:
        raise ValueError("x is 0")
    return x


def hold(gate):
    with open(gate) as opened:
        return opened.read()
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("half")
    (folder / "stages.py").write_text(STAGES)
    (folder / "half.pipe").write_text(SOURCE)
    return headrace.compile(folder / "half.pipe").plan


@pytest.fixture
def repository(plan: Plan) -> Iterator[Repository]:
    repository = Repository(EngineConfig(workers=4))
    repository.load("half", plan)
    yield repository
    repository.close()


@pytest.fixture
def server(repository: Repository) -> Iterator[Server]:
    with serve(repository, ServerConfig(http_port=0, grpc_port=None, metrics_port=None)) as server:
        yield server


def ask(server: Server, path: str, status: int = 200) -> Any:  # Any: JSON
    answer = httpx.get(f"http://{server.addresses.http}/v2/models/{path}")
    assert answer.status_code == status
    return answer.json()


def call(server: Server, x: float) -> int:
    url = f"http://{server.addresses.http}/v2/models/half/generate"
    return httpx.post(url, json={"x": x}).status_code


def test_figures_count_the_calls_of_each_stage_and_where_they_failed(server: Server) -> None:
    assert [call(server, x) for x in (4.0, 2.0, 0.25, 0.0)] == [200, 200, 200, 500]
    figures = ask(server, "half/stages")
    assert figures["requests"]["succeeded"] == 3
    assert figures["requests"]["failed"] == {"failed": 1}
    assert (figures["requests"]["waiting"], figures["requests"]["in_flight"]) == (0, 0)
    stages = {stage["name"]: stage for stage in figures["stages"]}
    assert (stages["halve"]["executions"], stages["halve"]["batch_sizes"]) == (2, {"1": 2})
    assert stages["halve"]["failed"] == {}
    assert stages["must"]["failed"] == {"failed": 1}
    latest = stages["must"]["latest"]
    assert latest["executions"] == stages["must"]["executions"] == 4
    assert 0 < latest["p50_ns"] <= latest["p95_ns"]
    assert stages["must"]["waiting"] == 0


def test_figures_are_of_the_stages_that_a_pipeline_runs(server: Server) -> None:
    assert [stage["name"] for stage in ask(server, "other/stages")["stages"]] == ["halve"]
    assert ask(server, "other/stages")["stages"][0]["latest"]["p95_ns"] is None


def test_rows_that_wait_for_a_stage_are_those_in_its_queue(
    server: Server, repository: Repository, tmp_path: Path
) -> None:
    gates = [tmp_path / f"gate{number}" for number in range(3)]
    for gate in gates:
        os.mkfifo(gate)
    engine = repository.engines[0]
    asked = [engine.submit(Request("gated", {"gate": str(gate)})) for gate in gates]

    def waits(rows: int, under_way: int) -> bool:
        figures = ask(server, "gated/stages")
        flying = figures["requests"]["in_flight"]
        return (figures["stages"][0]["waiting"], flying) == (rows, under_way)

    eventually(lambda: waits(2, 3))
    with ThreadPoolExecutor(len(gates)) as pool:  # nobody says which is come to first
        pool.map(Path.write_text, gates, ["done"] * len(gates))
    assert [one.result().outputs["y"] for one in asked] == ["done"] * 3
    eventually(lambda: waits(0, 0))


def test_each_stage_of_the_figures_stands_on_a_card_of_the_plan(server: Server) -> None:
    drawn = ask(server, "half/plan")
    cards: list[Any] = []  # Any: JSON

    def walk(item: Any) -> None:  # Any: JSON
        cards.extend([item] if "card" in item else [])
        for one in item.get("items", ()):
            walk(one)

    for frame in drawn["frames"]:
        walk(frame)
    assert [card["card"] for card in cards] == list(range(len(cards)))
    named = {card["stage"] for card in cards if card["stage"] is not None}
    assert named == {stage["name"] for stage in ask(server, "half/stages")["stages"]}
    assert {card["title"] for card in cards if card["look"] == "output"} == {"y", "z"}
    assert all(wire["source"] in range(len(cards)) for wire in drawn["wires"])


def test_a_version_that_is_loaded_anew_begins_at_nothing(
    server: Server, repository: Repository, tmp_path: Path
) -> None:
    call(server, 1.0)
    before = ask(server, "half/plan")
    (tmp_path / "stages.py").write_text(STAGES)
    (tmp_path / "half.pipe").write_text(SOURCE.replace("0.5", "0.75"))
    repository.load("half", headrace.compile(tmp_path / "half.pipe").plan)
    figures = ask(server, "half/stages")
    assert figures["requests"]["succeeded"] == 0
    assert len(before["hash"]) == 64
    assert figures["hash"] == ask(server, "half/plan")["hash"] != before["hash"]


@pytest.mark.parametrize("path", ["none/plan", "none/stages", "half/versions/9/stages"])
def test_what_is_not_served_is_not_found(server: Server, path: str) -> None:
    assert "Request for unknown model" in ask(server, path, 404)["error"]
