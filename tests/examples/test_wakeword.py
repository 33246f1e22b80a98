"""The wake words against the package whose models they use, frame by frame."""

import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = {
    "alexa": "alexa",
    "mycroft": "hey_mycroft",
    "jarvis": "hey_jarvis",
    "rhasspy": "hey_rhasspy",
    "weather": "weather",
}
TIMERS = ("1_minute", "5_minute", "10_minute", "20_minute", "30_minute", "1_hour")

pytestmark = [
    pytest.mark.slow,
    # the package's own: it looks for another runtime first
    pytest.mark.filterwarnings("ignore"),
]
package = pytest.importorskip(
    "openwakeword.model", reason="openwakeword is not installed: see examples/README.md"
)
if not (Path(str(package.__file__)).parent / "resources/models/alexa_v0.1.onnx").exists():
    pytest.skip("the models of openwakeword are not there", allow_module_level=True)


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    with wave.open(str(EXAMPLES / "vad" / "speech.wav")) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


@pytest.fixture(scope="module")
def app() -> Iterator[headrace.App]:
    path = EXAMPLES / "wakeword" / "wakeword.pipe"
    with headrace.load(path, workers=1, intra_op_threads=1) as app:
        yield app


@pytest.mark.parametrize("least_speech", [0.0, 0.3])
def test_each_frame_is_heard_as_the_package_hears_it(
    app: headrace.App, speech: np.ndarray, least_speech: float
) -> None:
    np.random.seed(0)
    model: Any = package.Model(inference_framework="onnx", vad_threshold=least_speech)
    sound = np.tile(speech, 2)
    frames = sound[: len(sound) // 1280 * 1280].reshape(-1, 1280)
    heard = 0
    with app.wakeword.sequence() as calls:
        for frame in frames:
            theirs = model.predict(frame)
            ours = calls(audio=frame, least_speech=least_speech)
            for name, label in NAMES.items():
                assert float(getattr(ours, name)) == float(theirs[label]), name
            timers = [float(theirs[f"{name}_timer"]) for name in TIMERS]
            assert [float(one) for one in ours.timers[1:]] == timers
            heard += timers[0] > 0
    assert 10 < heard <= len(frames) - 5


def test_streams_that_run_side_by_side_are_heard_as_alone(
    app: headrace.App, speech: np.ndarray
) -> None:
    frames = speech[: 1280 * 20].reshape(-1, 1280)
    with app.wakeword.sequence() as alone:
        expected = [float(alone(audio=frame).timers[1]) for frame in frames]
    streams = [app.wakeword.sequence() for _ in range(4)]
    futures = [[stream.submit(audio=frame) for stream in streams] for frame in frames]
    for row, value in zip(futures, expected, strict=True):
        assert [float(one.result().timers[1]) for one in row] == [value] * len(streams)
    for stream in streams:
        stream.end()
