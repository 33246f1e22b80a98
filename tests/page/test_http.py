"""The page as HTTP has it: its headers, its absence, and what pages of other sites may not do."""

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import httpx
import pytest

from headrace.runtime.engine import Engine
from headrace.runtime.http_door import Door
from headrace.runtime.page.files import page_routes
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import ServerConfig
from tests.runtime.plans import PlanMaker, block, fields

PARTS = [route.path for route in page_routes()]


@contextmanager
def serving(**settings: object) -> Generator[Server]:
    maker = PlanMaker()
    maker.pipeline("echo", fields(x="f32"), fields(x="f32"), block([0], (), [0]))
    ports = {"http_port": 0, "grpc_port": None, "metrics_port": 0}
    config = ServerConfig(**ports, **settings)  # pyright: ignore[reportArgumentType]
    engine = Engine(maker.plan())
    with serve([engine], config) as server:
        yield server
    engine.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{server.addresses.http}") as client:
        yield client


def test_each_part_of_the_page_may_load_nothing_from_elsewhere(client: httpx.Client) -> None:
    assert {"/", "/page/main.js", "/page/page.css"} <= set(PARTS)
    for path in PARTS:
        answer = client.get(path)
        assert answer.status_code == 200
        policy = dict(
            part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
        )
        assert (
            policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
        )
        assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
        assert "unsafe" not in str(policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer.text)


def test_no_part_of_the_page_knows_how_to_read_text_as_html(client: httpx.Client) -> None:
    for path in PARTS:
        text = client.get(path).text
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(", text)
        assert not re.search(r"<script(?![^>]* src=)|\son\w+=|style=", text)
        assert not re.search(r"localStorage|sessionStorage|document\.cookie|indexedDB", text)


@pytest.mark.parametrize("path", ["/", "/page/main.js"])
def test_what_has_not_changed_is_not_sent_again(path: str, client: httpx.Client) -> None:
    first = client.get(path)
    again = client.get(path, headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(path, headers={"if-none-match": '"other"'}).content == first.content
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(first.content))


def test_without_the_page_its_paths_are_unknown_like_any_other() -> None:
    with serving(page=False) as server:
        url = f"http://{server.addresses.http}"
        unknown = httpx.get(f"{url}/nothing")
        assert unknown.status_code == 404
        for path in PARTS:
            answer = httpx.get(url + path)
            assert (answer.status_code, answer.content) == (404, unknown.content)
        assert httpx.get(f"{url}/v2").status_code == 200


HOSTS = [
    "127.0.0.1:1",
    "[::1]:8000",
    "localhost",
    "LOCALHOST.:8000",
    "a.localhost:1",
    "box",
    "10.0.0.7",
]
STRANGERS = [
    "evil.example",
    "evil.example:8000",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_that_nobody_elsewhere_can_give_is_known(host: str, client: httpx.Client) -> None:
    assert client.get("/v2", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", STRANGERS)
def test_a_name_that_was_made_to_lead_here_is_refused(host: str, server: Server) -> None:
    addresses = server.addresses
    for url in (f"http://{addresses.http}/", f"http://{addresses.http}/v2/models/echo"):
        answer = httpx.get(url, headers={"host": host})
        assert answer.status_code == 403
        assert "--host-name" in answer.json()["error"]
    metrics = httpx.get(f"http://{addresses.metrics}/metrics", headers={"host": host})
    assert metrics.status_code == 403


def test_names_that_were_given_are_known_and_others_are_not() -> None:
    with serving(hosts=frozenset({"ML.example"})) as server:
        url = f"http://{server.addresses.http}/v2"
        assert httpx.get(url, headers={"host": "ml.example:443"}).status_code == 200
        assert httpx.get(url, headers={"host": "other.example"}).status_code == 403


def test_off_this_machine_any_name_is_known_unless_some_are_given() -> None:
    async def app(*_: object) -> None: ...

    assert not Door(app, "0.0.0.0")._guarded  # pyright: ignore[reportPrivateUsage]
    assert Door(app, "0.0.0.0", ["a.example"])._guarded  # pyright: ignore[reportPrivateUsage]


BODY = b'{"x": 1}'
CALLS = ["/v2/models/echo/infer", "/v2/models/echo/generate", "/v2/repository/models/echo/unload"]
ELSEWHERE = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},  # another server of this machine
    {"origin": "http://[bad"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://localhost:1"},
]


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
@pytest.mark.parametrize("path", CALLS)
def test_what_a_page_of_another_site_sends_is_refused(
    path: str, headers: dict[str, str], client: httpx.Client
) -> None:
    answer = client.post(path, content=BODY, headers={"content-type": "text/plain", **headers})
    assert answer.status_code == 403
    assert "another site" in answer.json()["error"]


def test_what_the_page_itself_and_other_clients_send_is_answered(client: httpx.Client) -> None:
    own = f"http://{client.base_url.netloc.decode()}"
    for headers in (
        {},
        {"origin": own},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ):
        answer = client.post("/v2/models/echo/generate", content=BODY, headers=headers)
        assert answer.json()["x"] == 1
    proxied = {"sec-fetch-site": "same-origin", "origin": "https://ml.example"}
    assert client.post(CALLS[1], content=BODY, headers=proxied).status_code == 200


def test_a_link_from_another_site_leads_to_the_page(client: httpx.Client) -> None:
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200
