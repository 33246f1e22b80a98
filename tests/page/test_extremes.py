"""The page with more than it is made for: many pipelines, long names, large plans, wrong clocks."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import headrace
from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.repository import Repository
from headrace.runtime.server import Server, serve
from tests.page.browser import Browser
from tests.page.test_page import FIGURE, config, look_at, run

pytestmark = pytest.mark.slow

LONG = "a_name_that_nobody_would_read_to_its_end_" * 3  # 123 letters, of 128 that there may be
STAGES = 300
WIDER = (
    "const all = document.documentElement; return [innerWidth, all.scrollWidth - all.clientWidth]"
)


@contextmanager
def serving(folder: Path, source: str) -> Generator[Server]:
    (folder / "toys.pipe").write_text(source)
    (folder / "toys.py").write_text("def plus(x):\n    return x + 1\n")
    repository = Repository(EngineConfig(workers=1))
    repository.load("toys", headrace.compile(folder / "toys.pipe").plan)
    with serve(repository, config()) as server:
        yield server
    repository.close()


def test_two_hundred_pipelines(window: Browser, tmp_path: Path) -> None:
    names = [f"box{number}" for number in range(200)]
    source = "".join(f"pipeline {one}(x: f32) -> (y: f32) {{ return y = x }}\n" for one in names)
    with serving(tmp_path, source) as server:
        look_at(window, server, "box0", "x")
        assert window.run("return document.querySelectorAll('#pipelines a').length") == 200
        room = "return document.querySelector('nav').getBoundingClientRect().height / innerHeight"
        for width in (1280, 320):
            window.sized(width, 640)
            assert window.run(WIDER) == [width, 0]
            assert window.run(room) < 0.5  # what was chosen can be seen
        window.sized(1280, 900)
        window.type("#input-x", "3")
        assert "y FP32[1]" in run(window)
        window.go(f"http://{server.addresses.http}/#box199")
        window.until("return document.getElementById('name').textContent === 'box199'")
        seen = (
            "const chosen = document.querySelector('nav [aria-current]').getBoundingClientRect();"
            "const nav = document.getElementById('pipelines').getBoundingClientRect();"
            "return chosen.top >= nav.top && chosen.bottom <= nav.bottom + 1"
        )
        window.until(seen)
    assert window.complaints() == []


def test_names_without_end(window: Browser, tmp_path: Path) -> None:
    source = f"""
fn {LONG}f(x: f32) -> (y: f32) = python "toys.py:plus"
pipeline {LONG}p({LONG}i: f32, {LONG}t: f32[2]) -> ({LONG}o: f32, {LONG}r: f32[2]) {{
    return {LONG}o = {LONG}f({LONG}i), {LONG}r = {LONG}t
}}
"""
    with serving(tmp_path, source) as server:
        for width in (1280, 320):
            window.sized(width, 640)
            look_at(window, server, f"{LONG}p", f"{LONG}i")
            assert window.run(WIDER) == [width, 0]
            window.type(f"#input-{LONG}i", "41")
            assert "42" in run(window)
            assert window.run(WIDER) == [width, 0]
    window.sized(1280, 900)


def test_a_plan_of_hundreds_of_stages(window: Browser, tmp_path: Path) -> None:
    steps = "".join(f"    x{n} = plus{n}(x{n - 1})\n" for n in range(1, STAGES + 1))
    functions = "".join(
        f'fn plus{n}(x: f32) -> (y: f32) = python "toys.py:plus"\n' for n in range(1, STAGES + 1)
    )
    source = f"{functions}pipeline p(x0: f32) -> (y: f32) {{\n{steps}    return y = x{STAGES}\n}}\n"
    with serving(tmp_path, source) as server:
        look_at(window, server, "p", "x0")
        window.until(f"return document.querySelectorAll('#stages tbody tr').length === {STAGES}")
        assert window.run("return document.querySelectorAll('#plan .card').length") >= STAGES
        wires = "return [...document.querySelectorAll('.wire')].map((w) => w.getAttribute('d'))"
        assert not [one for one in window.run(wires) if "NaN" in one or "undefined" in one]
        window.type("#input-x0", "0")
        assert str(STAGES) in run(window)
        window.until(FIGURE, f"plus{STAGES}", 8, "1")
    assert window.complaints() == []


JUMP = """
const Real = window.Real ??= Date;
const away = arguments[0] * 86400000;
window.Date = class extends Real {
  constructor(...given) { given.length ? super(...given) : super(Real.now() + away); }
  static now() { return Real.now() + away; }
};
"""


def test_a_clock_that_jumps_makes_no_rate(window: Browser, tmp_path: Path) -> None:
    source = "pipeline p(x: f32) -> (y: f32) { return y = x }\n"
    shown = "return document.getElementById('summary').textContent"
    since = "return document.getElementById('since').textContent.includes(arguments[0])"
    with serving(tmp_path, source) as server:
        look_at(window, server, "p", "x")
        window.type("#input-x", "1")
        for days in (-10_000, 10_000):
            year = str((datetime.now().astimezone() + timedelta(days)).year)
            window.run(JUMP, days)
            run(window)
            window.until(since, year)
            assert "-" not in window.run(shown).replace("–", "")
            assert "NaN" not in window.text()
            state = "return document.getElementById('state').dataset.state"
            assert window.run(state) == "ready"
            assert not window.run("return document.body.classList.contains('stale')")
    assert window.complaints() == []
