"""`headrace run --print-config`: every setting, no secret, and what it says is what holds."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import httpx
import pytest

from headrace.cli import main
from headrace.runtime.access import Access
from headrace.runtime.engine import EngineConfig
from headrace.runtime.http_body import whole_body
from headrace.runtime.protocols.forwarding import read_pattern, with_headers
from headrace.runtime.protocols.limits import CallerLimits, Limits
from headrace.runtime.repository.repository import Repository
from headrace.runtime.request import Fault, Request
from headrace.runtime.server_config import ServerConfig
from headrace.runtime.service import Service
from tests.safety.hosted import GOOD, INFER, Hosted, closed_after, hosting, post

SECRET = "do-not-print-this-one"
Ask = Callable[[Hosted], int]


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    path = tmp_path / "p.pipe"
    path.write_text("pipeline p(x: f32) -> (y: f32) { return y = x }\n")
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, object]]:
    assert main(["run", *words, "--print-config"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_setting_is_printed(pipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, pipe)
    assert {field.name for field in fields(ServerConfig)} <= set(told)
    for name, kind in (("limits", Limits), ("callers", CallerLimits), ("engine", EngineConfig)):
        assert set(told[name]) == {field.name for field in fields(kind)}
    assert set(told["policy"]) == {access.value for access in Access}
    assert told["carrier"] == "grpcio"
    assert told["host"] == "127.0.0.1"
    assert told["policy"]["control"] == "nobody"


def test_no_secret_is_printed(
    pipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"ops control,settings {SECRET}\n")
    words = ("--tokens", str(tokens), "--otel", f"http://me:{SECRET}@collector:4318")
    assert main(["run", pipe, *words, "--print-config"]) == 0
    said = capsys.readouterr().out
    assert SECRET not in said
    assert json.loads(said)["policy"]["control"] == "token ops"


def test_what_is_given_is_printed(pipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("body=2KiB", "head=0.5", "queue_size=7", "uploads=1GiB")
    told = printed(capsys, pipe, *(word for one in words for word in ("--limit", one)))
    assert told["limits"]["body"] == 2048
    assert told["limits"]["uploads"] == 1 << 30
    assert told["callers"]["head"] == 0.5
    assert told["engine"]["queue_size"] == 7


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("bodi=1", "did you mean `body`?"),
        ("body", "is no NAME=VALUE"),
        ("body=-1", "is no NAME=VALUE"),
        ("body=0", "a limit is over 0"),
        ("body=1.5", "--limit body is a whole number"),
        ("body=1TiB", "is no NAME=VALUE"),
        ("nothing=1", "there is no limit `nothing`"),
    ],
)
def test_a_limit_that_is_none_is_told(
    pipe: str, capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    assert main(["run", pipe, "--limit", word, "--print-config"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "pattern", ["(a+)+", "(a|a)*b", "((a*)*)*", "(?:a?){1,90}b", "(x-[a-z]+)*", "(?=(a+)+b)a"]
)
def test_a_pattern_that_may_never_end_is_refused(
    pipe: str, capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    assert main(["run", pipe, "--forward-headers", pattern, "--print-config"]) == 2
    assert "may never end" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["x-.*", "x-(team|user)-[a-z0-9-]+", "(x-)?a", "([a-z]{4}){2}"])
def test_a_pattern_that_ends_is_taken(pattern: str) -> None:
    assert read_pattern(pattern).pattern == pattern
    request = Request("p", {}, parameters={"a": 1})
    assert with_headers(request, {"x-" + "a" * 60_000: "y"}, read_pattern(pattern)) is request


def over_body(hosted: Hosted) -> int:
    return httpx.post(f"http://{hosted.http}{INFER}", content=GOOD.ljust(5001)).status_code


def over_parameters(hosted: Hosted) -> int:
    content = json.loads(GOOD) | {"parameters": {str(number): 1 for number in range(3)}}
    return httpx.post(f"http://{hosted.http}{INFER}", json=content).status_code


def over_id(hosted: Hosted) -> int:
    content = json.loads(GOOD) | {"id": "abc"}
    return httpx.post(f"http://{hosted.http}{INFER}", json=content).status_code


def over_tensors(hosted: Hosted) -> int:
    content = json.loads(GOOD) | {"outputs": [{"name": "y0"}] * 3}
    return httpx.post(f"http://{hosted.http}{INFER}", json=content).status_code


def over_elements(hosted: Hosted) -> int:
    tensor = {"name": "x0", "datatype": "FP32", "shape": [999], "data": [1] * 999}
    return httpx.post(f"http://{hosted.http}{INFER}", json={"inputs": [tensor]}).status_code


def over_arguments(hosted: Hosted) -> int:
    url = f"http://{hosted.http}/v2/repository/index"
    return httpx.post(url, content=b"{}".ljust(101)).status_code


def over_head(hosted: Hosted) -> int:
    with hosted.connect() as connection:
        connection.sendall(post(INFER, GOOD)[:40])
        return closed_after(connection)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    given = "body=5000 parameters=2 id_length=2 tensors=2 elements=998 arguments=100 head=1"
    words = [word for one in given.split() for word in ("--limit", one)]
    with hosting(tmp_path_factory.mktemp("strict"), *words) as made:
        yield made


def test_bodies_that_are_on_their_way_are_bounded_together() -> None:
    service = Service(Repository(), Limits(uploads=3000))

    async def upload(pieces: int) -> int:
        left: list[dict[str, object]] = [
            {"type": "http.request", "body": bytes(1000), "more_body": more > 0}
            for more in range(pieces)
        ]

        async def receive() -> dict[str, object]:
            return left.pop()

        return len(await whole_body(await receive(), receive, {}, service, 10_000))

    assert asyncio.run(upload(4)) == 4000  # the first is not waited for
    with pytest.raises(Fault, match="too many large bodies"):
        asyncio.run(upload(5))
    assert asyncio.run(upload(4)) == 4000  # what was counted in was counted out
    service.repository.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "status"),
    [
        (over_body, 413),
        (over_parameters, 400),
        (over_id, 400),
        (over_tensors, 400),
        (over_elements, 400),
        (over_arguments, 413),
        (over_head, 400),
    ],
)
def test_what_is_printed_is_what_holds(
    hosted: Hosted, strict: Hosted, ask: Ask, status: int
) -> None:
    assert ask(strict) == status
    if ask is not over_head:
        assert ask(hosted) == 200  # by default, none of it is too much
    strict.serves()
