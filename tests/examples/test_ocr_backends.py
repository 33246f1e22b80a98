"""The OCR example with its models run by other libraries: the words are the same."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest

import headrace
from headrace.compiler import compile_source
from headrace.compiler.plan import ModelSegment
from headrace.compiler.plan_walk import segments_of
from headrace.dsl.source import Source

PIPE = Path(__file__).parents[2] / "examples" / "ocr" / "ocr.pipe"
MODELS = ("detect", "angle", "read")

pytestmark = pytest.mark.slow


def reads_as_ever(app: headrace.App, photo: bytes, render: ModuleType) -> None:
    page = app.ocr(photo=photo)
    assert np.asarray(page.text).tolist() == list(render.SIGN)
    with headrace.load(PIPE) as usual:
        wanted = usual.ocr(photo=photo)
    np.testing.assert_allclose(page.score, wanted.score, atol=2e-3)
    np.testing.assert_allclose(page.box, wanted.box, atol=1)


@pytest.mark.skipif(find_spec("openvino") is None, reason="openvino is not installed")
def test_openvino_runs_all_of_its_models(page: Callable[[str], bytes], render: ModuleType) -> None:
    stages = "".join(f"    {name} {{ backend = openvino }}\n" for name in MODELS)
    text = f'{PIPE.read_text()}\nschedule ocr on "openvino" {{\n{stages}}}\n'
    plan = compile_source(Source(PIPE.name, text, PIPE), schedule="openvino")
    used = [plan.segments[index] for index in segments_of(plan.pipeline("ocr").body)]
    models = [one for one in used if isinstance(one, ModelSegment) and one.kind == "onnx"]
    assert {name for one in models for name in one.members} >= {*MODELS}
    assert {one.backend for one in models} == {"openvino"}
    with headrace.load(plan) as app:
        reads_as_ever(app, page("sign"), render)


FILES = {
    "detect": ("ch_PP-OCRv4_det_infer", (1, 3, 96, 160)),
    "angle": ("ch_ppocr_mobile_v2.0_cls_infer", (2, 3, 48, 192)),
    "read": ("ch_PP-OCRv4_rec_infer", (2, 3, 48, 320)),
}


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.filterwarnings("ignore")  # of PyTorch's tracer, which only this test uses
def test_pytorch_runs_all_of_its_models(
    page: Callable[[str], bytes], render: ModuleType, tmp_path: Path
) -> None:
    rapidocr = pytest.importorskip("rapidocr_onnxruntime")
    traced = import_module("tests.runtime.backends.onnx_as_torch").traced
    models, text = Path(rapidocr.__file__).parent / "models", PIPE.read_text()
    for name, (file, shape) in FILES.items():
        x = np.random.default_rng(0).random(shape, np.float32)
        traced(onnx.load(models / f"{file}.onnx"), x).save(tmp_path / f"{name}.pt")
        location = f'{name} = onnx "pkg:rapidocr_onnxruntime/models/{file}.onnx"'
        assert location in text
        text = text.replace(location, f'{name} = torch "{tmp_path / name}.pt"')
    with headrace.load(compile_source(Source(PIPE.name, text, PIPE))) as app:
        reads_as_ever(app, page("sign"), render)
