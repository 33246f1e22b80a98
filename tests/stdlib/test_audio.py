"""Sound files, rates, frames and spectra, compared with what is known of them."""

import sys
from typing import Any

import numpy as np
import pytest

from headrace.dsl.dims import Dims
from headrace.dsl.types import DType
from headrace.stdlib.sound import hertz_of, mel_of
from tests.stdlib.calls import call, refusal, tensor, types

F32 = DType.F32


def tone(hertz: float, rate: int, count: int) -> Any:
    return np.cos(2 * np.pi * hertz * np.arange(count) / rate).astype(np.float32)


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg"])
def test_what_is_encoded_can_be_decoded(kind: str) -> None:
    sound = np.stack([tone(440, 16000, 4000) / 2, tone(880, 16000, 4000) / 4], axis=1)
    content = call("audio.encode", sound, 16000, kind)
    back, rate = call("audio.decode", content, mono=False)
    assert (int(rate), back.shape, back.dtype) == (16000, (4000, 2), np.float32)
    np.testing.assert_allclose(back, sound, atol=0.1 if kind == "ogg" else 1e-4)
    mono, _ = call("audio.decode", content)
    np.testing.assert_allclose(mono, back.mean(axis=1), atol=1e-6)


@pytest.mark.parametrize("content", [b"", b"RIFF", b"hello, this is no sound at all"])
def test_what_is_no_sound_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError, match="the sound"):
        call("audio.decode", content)


def test_no_more_samples_are_unpacked_than_allowed() -> None:
    content = call("audio.encode", np.zeros((100, 2), np.float32), 8000)
    assert call("audio.decode", content, max_samples=200)[0].shape == (100,)
    with pytest.raises(ValueError, match="more than the 199 samples allowed"):
        call("audio.decode", content, max_samples=199)


def test_a_tone_keeps_its_pitch_at_another_rate() -> None:
    sound = call("audio.resample", tone(1000, 48000, 48000), 48000, 16000)
    assert sound.shape == (16000,)
    np.testing.assert_allclose(sound[2000:-2000], tone(1000, 16000, 16000)[2000:-2000], atol=1e-3)


def test_frames_that_are_not_full_are_left_out() -> None:
    frames = call("audio.frame", np.arange(7.0), 3, 2)
    assert frames.tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    assert call("audio.frame", np.arange(2.0), 3, 2).shape == (0, 3)
    dims = Dims()
    assert str(types("audio.frame", tensor(F32, dims.rigid("S")), 4, 4, dims=dims)) == (
        "f32[S / 4, 4]"
    )


def test_a_tone_is_one_line_of_the_spectrum() -> None:
    frames = tone(1000, 16000, 64)[None]
    power = call("audio.power", frames, "rectangular")
    want = np.zeros(33)
    want[4] = 32**2  # 1000 Hz is the fourth of 250 Hz steps
    np.testing.assert_allclose(power[0], want, atol=1e-3)
    spectrum = call("audio.stft", frames, "rectangular")
    np.testing.assert_allclose(spectrum[0, 4], [32, 0], atol=1e-4)


def test_windows_are_periodic_unless_told_otherwise() -> None:
    assert call("audio.window", "hann", 4).tolist() == [0, 0.5, 1, 0.5]
    np.testing.assert_allclose(
        call("audio.window", "hann", 4, periodic=False), [0, 0.75, 0.75, 0], atol=1e-6
    )


def test_mel_frequencies_are_those_of_the_literature() -> None:
    ends = mel_of(np.array([0.0, 11025.0]), "slaney")
    edges = hertz_of(np.linspace(ends[0], ends[1], 40), "slaney")
    np.testing.assert_allclose(edges[[1, 10, 12, 39]], [85.317, 853.173, 1024.856, 11025], 1e-5)
    assert mel_of(np.array(1000.0), "htk") == pytest.approx(1000, abs=0.02)
    np.testing.assert_allclose(hertz_of(mel_of(edges, "htk"), "htk"), edges, rtol=1e-9, atol=1e-9)


def test_bands_of_equal_area_and_of_equal_height() -> None:
    even = np.ones((1, 513), np.float32)
    by_area = call("audio.mel", even, 16000, 20)
    np.testing.assert_allclose(by_area, 512 / 8000, rtol=0.03)
    tall = call("audio.mel", np.eye(513, dtype=np.float32), 16000, 20, area=False)
    assert 0.9 < tall.max() <= 1


def test_bands_must_lie_within_half_the_rate() -> None:
    assert refusal("audio.mel", tensor(F32, 3, 201), 16000, 40, 0, 9000) == (
        "high: a frequency above 0.0 and up to 8000.0, not 9000.0"
    )


def test_integers_and_samples_convert_without_loss() -> None:
    pcm = np.array([-32768, -1, 0, 1, 32767], np.int16)
    assert call("audio.to_i16", call("audio.from_i16", pcm)).tolist() == pcm.tolist()
    loud = np.array([2, -2, np.nan, np.inf], np.float32)
    assert call("audio.to_i16", loud).tolist() == [32767, -32768, 0, 32767]


def test_the_loudness_of_a_tone() -> None:
    assert call("audio.rms", tone(100, 1000, 1000)) == pytest.approx(np.sqrt(0.5), rel=1e-5)


@pytest.mark.parametrize(
    ("library", "name", "arguments"),
    [
        ("soundfile", "audio.decode", (b"RIFF",)),
        ("soxr", "audio.resample", (np.zeros(9, np.float32), 8000, 16000)),
    ],
)
def test_a_missing_library_names_what_to_install(
    library: str, name: str, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=r"pip install headrace\[audio\]"):
        call(name, *arguments)
