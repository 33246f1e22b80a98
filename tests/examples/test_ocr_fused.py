"""Fusing moves work into the models and changes no bit of what is read."""

from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.compiler import compile_source
from headrace.dsl.read import read_source

OCR = Path(__file__).parents[2] / "examples" / "ocr"


@pytest.fixture(scope="module")
def apps() -> tuple[headrace.App, headrace.App]:
    """Return the example fused, and with every op and model on its own."""
    source = read_source(OCR / "ocr.pipe", "ocr.pipe")
    fused, plain = (
        headrace.load(compile_source(source, schedule="default", optimise=choice))
        for choice in (True, False)
    )
    return fused, plain


@pytest.mark.parametrize("pipeline", ["ocr", "ocr_chunked"])
@pytest.mark.parametrize("page", ["blank", "sign", pytest.param("words40", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_page_is_read_alike_bit_for_bit(
    apps: tuple[headrace.App, headrace.App], pipeline: str, page: str
) -> None:
    photo = (OCR / "pages" / f"{page}.png").read_bytes()
    fused, plain = (app[pipeline](photo=photo) for app in apps)
    assert fused.text.tolist() == plain.text.tolist()
    np.testing.assert_array_equal(fused.score, plain.score)
    np.testing.assert_array_equal(fused.box, plain.box)
