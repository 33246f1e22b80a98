"""B22 over the wire: each stage sees the request that came in, and the time that it has left."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.behaviour_pipes import compiled
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.ways import WAYS, Way, words

FUNCTIONS = """
import headrace

def said(context):
    left = context.remaining()
    known = [f"{name}={value}" for name, value in sorted(context.parameters.items())]
    return [context.id, context.priority, "no limit" if left is None else 0 < left < 60, *known]

def first(tag, context: headrace.Context):
    return f"{tag}: {said(context)}"

def second(tags, contexts: list[headrace.Context]):
    return [f"{tag} {said(context)}" for tag, context in zip(tags, contexts)]
"""
PIPE = """
fn first(tag: string) -> (tag: string) = python "functions.py:first"
fn second(tag: string) -> (tag: string) = python "functions.py:second" batched

pipeline both(tag: string) -> (tag: string) { return tag = second(first(tag)) }
schedule both on "server" {
    second { batch { max = 4, wait = 1ms } }
    priority { levels = 3, default = 2 }
}
"""
ISOLATED = PIPE.replace("second {", "second { isolate = on,")
CARRIERS = (Carrier.GRPCIO, Carrier.NATIVE)


@pytest.fixture(
    scope="module",
    params=[PIPE, pytest.param(ISOLATED, marks=pytest.mark.slow)],
    ids=["in this process", "one in another"],
)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return compiled(tmp_path_factory.mktemp("context"), request.param, FUNCTIONS)


@pytest.fixture(scope="module", params=CARRIERS, ids=lambda one: one.value)
def server(plan: Plan, request: pytest.FixtureRequest) -> Iterator[Server]:
    engine = Engine(plan, EngineConfig(workers=1, intra_op_threads=1))
    forwarded = re.compile("x-tenant|x-trace-.*")
    with serve([engine], free_ports(request.param, forwarded=forwarded)) as server:
        yield server
    engine.close()


def asked(server: Server, name: str, **options: Any) -> str:
    with Way(server, name) as way:
        tag = way.tensor("tag", np.array(["t"], object))
        return words(way.infer("both", tag, request_id="r7", **options)["tag"])[0]


@pytest.mark.parametrize("name", WAYS)
def test_b22_each_stage_sees_priority_parameters_headers_and_time(
    server: Server, name: str
) -> None:
    answer = asked(
        server,
        name,
        priority=3,
        timeout=59_000_000,
        parameters={"language": "fr", "beams": 4, "strict": True},
        headers={"x-tenant": "blue", "x-other": "kept to itself"},
    )
    said = ["r7", 3, True, "beams=4", "language=fr", "strict=True", "x-tenant=blue"]
    assert answer == f"t: {said} {said}"


@pytest.mark.parametrize("name", WAYS)
def test_b22_a_request_that_says_nothing_has_the_defaults(server: Server, name: str) -> None:
    said = ["r7", 2, "no limit"]
    assert asked(server, name) == f"t: {said} {said}"
