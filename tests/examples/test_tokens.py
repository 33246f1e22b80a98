"""The token loop against the same loop in Python over the same model."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request
from headrace.testing import run_tests
from tests.examples.conftest import EXAMPLES, load_module

PROMPTS = ("t", "the r", "when the ra", "Wheel", "c")  # the last one comes to an end


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its model made."""
    folder = copytree(EXAMPLES / "tokens", tmp_path_factory.mktemp("tokens") / "tokens")
    onnx.save(load_module(folder / "make_model.py").model(), folder / "lm.onnx")
    return folder


@pytest.fixture(scope="module")
def app(folder: Path) -> Iterator[headrace.App]:
    with headrace.load(folder / "tokens.pipe", workers=2) as app:
        yield app


def written(folder: Path, prompt: str, most: int = 64) -> list[int]:
    """Return the numbers that a plain loop writes."""
    stages: Any = load_module(folder / "tokens.py")
    session: Any = onnxruntime.InferenceSession(str(folder / "lm.onnx"))
    ids: list[int] = stages.encode(prompt).tolist()
    new: list[int] = []
    while len(new) < most:
        (logits,) = session.run(None, {"ids": np.array([ids], np.int64)})
        new.append(int(np.argmax(logits[0, -1])))
        ids.append(new[-1])
        if new[-1] == 0:
            break
    return new


@pytest.mark.parametrize("prompt", PROMPTS)
def test_what_is_written_is_what_a_plain_loop_writes(
    app: headrace.App, folder: Path, prompt: str
) -> None:
    expected = written(folder, prompt)
    letters: Any = load_module(folder / "make_model.py").LETTERS
    text = "".join(letters[token] for token in expected)
    assert "".join(str(one.text) for one in app.generate.stream(prompt=prompt)) == text
    assert "".join(app.generate(prompt=prompt).text) == text
    assert (expected[-1] == 0) == (prompt == "c")
    done = app.complete(prompt=prompt)
    assert done.ids[-int(done.written) :].tolist() == expected


def test_the_bound_ends_what_the_model_does_not(app: headrace.App, folder: Path) -> None:
    assert app.complete(prompt="the r", most=3).written == 3
    assert len(list(app.generate.stream(prompt="the r", most=3))) == 3
    assert written(folder, "the r", 3) == app.complete(prompt="the r", most=3).ids[-3:].tolist()


def test_turns_of_several_requests_meet_in_the_model_s_queue(folder: Path) -> None:
    source = (folder / "tokens.pipe").read_text()
    schedule = 'schedule complete on "server" { lm { batch { max = 4, wait = 50ms } } }\n'
    (folder / "together.pipe").write_text(source + schedule)
    plan = headrace.compile(folder / "together.pipe").plan
    engine = Engine(plan, EngineConfig(workers=2))
    asked = [engine.submit(Request("complete", {"prompt": "the r"})) for _ in range(4)]
    got = [one.result(20).outputs["ids"] for one in asked]
    expected = written(folder, "the r")
    assert all(np.asarray(one)[-len(expected) :].tolist() == expected for one in got)
    assert sum(stage.mixed for stage in engine.metrics.stages) > 0
    engine.close()


def test_the_tests_in_the_file_pass(folder: Path) -> None:
    from headrace.dsl.read import read_source

    assert [one.failures for one in run_tests(read_source(folder / "tokens.pipe"))] == [(), ()]
