"""The page in a browser, as people and screen readers meet it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.access import policy_of as policy
from headrace.runtime.access import read_tokens
from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.repository import Repository
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import ServerConfig
from tests.page.browser import Browser

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
ENTER, TAB, CONTROL_A = "\ue007", "\ue004", "\ue009a"

SOURCE = """
fn again(text: string, times: i64) -> (text: string[N], big: i64[N]) = python "toys.py:again"
fn must(text: string) -> (text: string) = python "toys.py:must"
fn length(data: bytes) -> (n: i64) = python "toys.py:length"
fn wait(gate: string) -> (text: string) = python "toys.py:wait"

pipeline repeat(text: string, times: i64 = 2) -> (text: string[N], big: i64[N]) {
    words, numbers = again(text, times)
    return text = words, big = numbers
}

pipeline fail(text: string) -> (text: string) { return text = must(text) }

pipeline slow(gate: string) -> (text: string) { return text = wait(gate) }

pipeline letters(text: string, times: i64) -> stream (text: string, place: i64) {
    loop (place: i64 = 0) max times {
        emit text = text, place = place
        next place = place + 1
    }
}

pipeline twice_a_picture_that_came_from_elsewhere(photo: bytes) -> stream (photo: bytes) {
    emit photo = photo
    emit photo = photo
}

pipeline lengths(data: bytes) -> (n: i64) batch 8 { return n = length(data) }

pipeline same(x: f32) -> (y: f32) { return y = x }

pipeline count(by: i64) -> (total: i64) per sequence idle 60s {
    state total: i64 = 0
    sum = total + by
    next total = sum
    return total = sum
}
"""

STREAM_OF_BYTES = "twice_a_picture_that_came_from_elsewhere"

TOYS = """
import os


def again(text, times):
    return [text] * int(times), [2**62 + 1] * int(times)


def length(data):
    return len(data)


def must(text):
    raise ValueError("no " + text)


def wait(gate):
    with open(gate) as opened:
        return opened.read()
"""


def compiled(folder: Path, source: str = SOURCE) -> Plan:
    (folder / "toys.py").write_text(TOYS)
    (folder / "toys.pipe").write_text(source)
    return headrace.compile(folder / "toys.pipe").plan


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    repository = Repository(EngineConfig(workers=2))
    repository.load("toys", compiled(tmp_path_factory.mktemp("toys")))
    repository.load("ocr", headrace.compile(EXAMPLES / "ocr" / "ocr.pipe").plan)
    yield repository
    repository.close()


@pytest.fixture(scope="module")
def server(repository: Repository) -> Iterator[Server]:
    with serve(repository, config()) as server:
        yield server


def config(port: int = 0, **settings: Any) -> ServerConfig:
    return ServerConfig(http_port=port, grpc_port=None, metrics_port=None, **settings)


def look_at(window: Browser, server: Server, name: str, field: str) -> None:
    """Show the page of a pipeline, and wait for the field of one of its inputs."""
    window.go("about:blank")
    window.complaints()
    window.go(f"http://{server.addresses.http}/#{name}")
    window.until("return document.getElementById(arguments[0])", f"input-{field}")


def run(window: Browser) -> str:
    """Send the form; return what came of it."""
    window.click("button.run")
    window.until(DONE)
    return window.run("return document.getElementById('result').innerText")


DONE = (
    "return document.querySelector('#result .snippets') && "
    "!document.querySelector('#form[aria-busy]')"
)
FIGURE = (
    "const row = [...document.querySelectorAll('#stages tbody tr')]"
    ".find((one) => one.firstChild.textContent === arguments[0]);"
    "return row && row.children[arguments[1]].textContent === arguments[2]"
)


def test_a_page_is_uploaded_and_its_text_read(window: Browser, server: Server) -> None:
    look_at(window, server, "ocr", "photo")
    window.type("#input-photo", str(EXAMPLES / "ocr" / "pages" / "sign.png"))
    said = run(window)
    assert "Riverside Station" in said
    assert "NO EXIT AFTER 22:00" in said
    drawn = window.until("return document.querySelectorAll('.boxes polygon').length")
    assert drawn == 12
    labels = window.run(
        "return [...document.querySelectorAll('.boxes text')].map((t) => t.textContent)"
    )
    assert labels[0] == "Riverside Station"
    window.until(FIGURE, "detect", 8, "1")
    window.until(FIGURE, "read", 8, "12")
    cards = "return [...document.querySelectorAll('#plan .card .title')].map((t) => t.textContent)"
    assert {"photo", "detectcpu", "readcpu", "box"} <= set(window.run(cards))
    assert window.complaints() == []
    texts = "return [...document.querySelectorAll('.snippet code')].map((code) => code.textContent)"
    curl, python = window.run(texts)
    for command in (["bash", "-c", curl], [sys.executable, "-c", python]):
        told = subprocess.run(
            command, cwd=EXAMPLES / "ocr" / "pages", capture_output=True, text=True, check=True
        )
        assert "Day return EUR 19.90" in told.stdout


def test_bytes_go_to_a_stream_and_come_back_as_what_they_are(
    window: Browser, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes("ü".encode())
    look_at(window, server, STREAM_OF_BYTES, "photo")
    window.type("#input-photo", str(EXAMPLES / "ocr" / "pages" / "sign.png"))
    assert run(window).startswith("2 responses in ")
    shown = "return [...document.querySelectorAll('.events img')].every((one) => one.naturalWidth)"
    window.until(shown)
    assert window.run("return document.querySelectorAll('.events img').length") == 2
    window.type("#input-photo", str(tmp_path / "a.txt"))
    assert "\nüü\n" in run(window)
    assert window.complaints() == []
    texts = "return [...document.querySelectorAll('.snippet code')].map((code) => code.textContent)"
    curl, python = window.run(texts)
    for command, said in ((["bash", "-c", curl], '"ü"'), ([sys.executable, "-c", python], "xbc")):
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert told.stdout.count(said) == 2


BRING = """
const brought = new DataTransfer();
for (const size of [3, 5]) brought.items.add(new File(["x".repeat(size)], `${size}.txt`));
const [kind, where] = [arguments[0], document.querySelector(arguments[1])];
const options = { bubbles: true, cancelable: true };
const event = kind === "paste"
  ? new ClipboardEvent(kind, { ...options, clipboardData: brought })
  : new DragEvent(kind, { ...options, dataTransfer: brought });
return where.dispatchEvent(event);
"""


@pytest.mark.parametrize("way", ["choose", "paste", "drop"])
def test_files_are_the_rows_of_a_batch_however_they_are_brought(
    way: str, window: Browser, server: Server, tmp_path: Path
) -> None:
    look_at(window, server, "lengths", "data")
    if way == "choose":
        for size in (3, 5):
            (tmp_path / f"{size}.txt").write_text("x" * size)
        window.type("#input-data", f"{tmp_path / '3.txt'}\n{tmp_path / '5.txt'}")
    else:
        assert not window.run(BRING, way, "body" if way == "paste" else ".field.drop")
    assert "3.txt, 3 bytes; 5.txt, 5 bytes" in window.text()
    assert "n INT64[2, 1] 3 to 5" in run(window)
    assert window.complaints() == []


def test_a_zero_keeps_its_sign(window: Browser, server: Server) -> None:
    look_at(window, server, "same", "x")
    window.type("#input-x", "-0")
    assert "-0" in run(window)


def test_one_of_many_pipelines_is_found(window: Browser, tmp_path: Path) -> None:
    names = [f"box{number}" for number in range(1, 14)]
    source = "".join(f"pipeline {one}(x: f32) -> (y: f32) {{ return y = x }}\n" for one in names)
    repository = Repository(EngineConfig(workers=1))
    repository.load("boxes", compiled(tmp_path, source))
    shown = (
        "return [...document.querySelectorAll('#pipelines li:not([hidden]) b')]"
        ".map((name) => name.textContent)"
    )
    with serve(repository, config()) as server:
        look_at(window, server, "box1", "x")
        assert window.run(shown) == names  # in the order of their numbers
        window.type("#search", "X1")
        assert window.run(shown) == ["box1", "box10", "box11", "box12", "box13"]
    repository.close()


def test_what_a_stage_gives_is_text_and_never_markup(window: Browser, server: Server) -> None:
    look_at(window, server, "repeat", "text")
    window.type("#input-text", HOSTILE)
    said = run(window)
    assert said.count(HOSTILE) >= 2
    assert str(2**62 + 1) in said  # all digits
    look_at(window, server, "fail", "text")
    window.type("#input-text", HOSTILE)
    said = run(window)
    assert "Refused with 500" in said
    assert f"no {HOSTILE}" in said
    look_at(window, server, "letters", "text")
    window.type("#input-text", HOSTILE)
    window.type("#input-times", "3")
    said = run(window)
    assert said.startswith("3 responses")
    signature = "→ stream (text: string, place: i64)"
    assert signature in window.run("return document.getElementById('signature').textContent")
    assert HOSTILE * 3 in said
    window.go(f"http://{server.addresses.http}/#{HOSTILE}")
    window.until("return !document.getElementById('nothing').hidden")
    assert window.run("return window.hacked === undefined && !document.querySelector('img')")
    failed = [one for one in window.complaints() if "500" not in one]
    assert failed == []


def test_a_value_that_is_none_is_named_and_nothing_is_sent(
    window: Browser, server: Server, repository: Repository
) -> None:
    look_at(window, server, "repeat", "text")
    window.type("#input-text", "a")
    window.type("#input-times", "1.5")
    window.click("button.run")
    window.until("return document.activeElement.id === 'input-times'")
    field = "const field = document.getElementById('input-times');"
    assert window.run(f"{field} return field.getAttribute('aria-invalid')") == "true"
    described = f"{field} return field.getAttribute('aria-describedby').split(' ')"
    texts = f"{described}.map((id) => document.getElementById(id).textContent).join(' ')"
    assert "whole number" in window.run(texts)
    before = repository.totals().pipelines["repeat", "1"].successes
    window.type("#input-times", "3")
    assert "3 rows" in run(window)
    assert repository.totals().pipelines["repeat", "1"].successes == before + 1


def test_a_sequence_goes_on_until_it_is_ended(window: Browser, server: Server) -> None:
    look_at(window, server, "count", "by")
    window.type("#input-by", "5")
    totals = [run(window)]
    totals.append(run(window))
    window.click("#sequence-end")
    totals.append(run(window))
    totals.append(run(window))
    assert [one.split("\n\n")[2].strip() for one in totals] == ["5", "10", "15", "5"]


def test_a_call_is_cancelled(window: Browser, server: Server, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    look_at(window, server, "slow", "gate")
    window.type("#input-gate", str(tmp_path / "gate"))
    window.click("button.run")
    with (tmp_path / "gate").open("w"):  # it runs
        window.click("#form button[type=button]")
        window.until(DONE)
    assert "Cancelled" in window.run("return document.getElementById('result').innerText")


def test_a_page_can_be_used_with_the_keyboard_alone(window: Browser, server: Server) -> None:
    look_at(window, server, "repeat", "text")
    window.run("document.getElementById('main').focus()")
    for _ in range(10):
        if window.run("return document.activeElement.id") == "input-text":
            break
        window.press(TAB)
    window.press(*"hello", TAB, "3", ENTER)
    window.until(DONE)
    assert "3 rows" in window.run("return document.getElementById('result').innerText")


def test_what_needs_a_token_asks_for_it_and_keeps_it_nowhere(
    window: Browser, repository: Repository
) -> None:
    tokens = read_tokens("page read,infer lPk3v9sN0mW8yQ2x")
    own = Repository(EngineConfig(workers=1))
    own.load("toys", repository.engines[0].plan)
    with serve(own, config(policy=policy([], tokens))) as server:
        window.go("about:blank")
        window.go(f"http://{server.addresses.http}/#repeat")
        window.until("return document.getElementById('state').dataset.state === 'locked'")
        window.type("#token", "lPk3v9sN0mW8yQ2x")
        window.press(ENTER)
        window.until("return document.getElementById('input-text')")
        window.type("#input-text", "a")
        assert "2 rows" in run(window)
        kept = "return [localStorage.length, sessionStorage.length, document.cookie, location.href]"
        assert window.run(kept) == [0, 0, "", f"http://{server.addresses.http}/#repeat"]
        assert "lPk3v9sN0mW8yQ2x" not in window.text()
    own.close()


def test_a_version_that_changes_a_server_that_goes_and_comes_back(
    window: Browser, tmp_path: Path
) -> None:
    own = Repository(EngineConfig(workers=1))
    own.load("toys", compiled(tmp_path))
    with serve(own, config()) as server:
        port = int(str(server.addresses.http).rpartition(":")[2])
        look_at(window, server, "repeat", "text")
        window.type("#input-text", "kept")
        own.load("toys", compiled(tmp_path, SOURCE.replace("times: i64 = 2", "times: i64 = 4")))
        window.until("return document.getElementById('input-times')?.placeholder === '4'")
        own.unload("toys").result()
        window.until("return !document.getElementById('nothing').hidden")
        assert "is not served" in window.run("return document.getElementById('nothing').innerText")
        assert window.run("return document.querySelector('button.run').disabled")
    state = "return document.getElementById('state').dataset.state === arguments[0]"
    window.until(state, "away")
    assert window.run("return document.body.classList.contains('stale')")
    own.close()
    again = Repository(EngineConfig(workers=1))
    again.load("toys", compiled(tmp_path))
    with serve(again, config(port)):
        window.until(state, "ready")
        window.until("return document.getElementById('nothing').hidden")
        window.until("return document.getElementById('input-times').placeholder === '2'")
        window.until("return !document.querySelector('button.run').disabled")
        assert not window.run("return document.body.classList.contains('stale')")
    again.close()


def test_nothing_is_asked_while_nobody_looks(window: Browser, server: Server) -> None:
    look_at(window, server, "repeat", "text")
    hide = (
        "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'));"
    )
    window.run(hide, True)
    asked = (
        "performance.clearResourceTimings();"
        "await new Promise((go) => setTimeout(go, 2000));"
        "return performance.getEntriesByType('resource').length"
    )
    assert window.run(asked) == 0
    window.run(hide, False)
    window.until("return performance.getEntriesByType('resource').length > 0")


@pytest.mark.parametrize("name", ["repeat", "ocr", "count", STREAM_OF_BYTES])
def test_nothing_is_wider_than_a_small_phone(name: str, window: Browser, server: Server) -> None:
    window.sized(320, 640)
    look_at(window, server, name, {"repeat": "text", "count": "by"}.get(name, "photo"))
    assert window.run("return document.documentElement.scrollWidth") == 320
    window.sized(320, 256)  # 1280 by 1024, at 400 %
    assert window.run("return document.documentElement.scrollWidth") == 320
    window.click("button.run")  # which can be come to
    window.sized(1280, 900)


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the text of axe-core, which looks for what keeps people out."""
    folder = tmp_path_factory.mktemp("axe")
    if (npm := shutil.which("npm")) is None:
        pytest.skip("npm is not installed, to get axe-core with")
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), "axe-core@4"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"axe-core cannot be got: {error}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.mark.parametrize(
    ("scheme", "name", "field", "value"),
    [
        ("dark", "repeat", "text", "a"),
        ("dark", "fail", "text", "a"),
        ("light", "ocr", "photo", str(EXAMPLES / "ocr" / "pages" / "sign.png")),
    ],
)
def test_nobody_is_kept_out(
    scheme: str, name: str, field: str, value: str, window: Browser, server: Server, axe: str
) -> None:
    window.prefers(color_scheme=scheme, reduced_motion="reduce")
    look_at(window, server, name, field)
    window.type(f"#input-{field}", value)
    run(window)
    window.until("return document.querySelector('#stages tbody tr')")
    window.run("for (const one of document.querySelectorAll('details')) one.open = true")
    window.run(f"{axe}; window.axe = axe")
    found = window.run("return (await axe.run(document)).violations")
    shown = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
    assert shown == [], json.dumps(shown, indent=1)
    window.prefers(color_scheme="light")
