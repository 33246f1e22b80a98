"""The OCR example against the package whose models it uses: lines, places and scores."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import headrace

EXAMPLE = Path(__file__).parents[2] / "examples" / "ocr"
Lines = tuple[list[str], np.ndarray, np.ndarray]
Package = Callable[[bytes, bool], Lines]

QUICK = ("sign", "blank")
SLOW = (
    *("scanned", "words40", "tiny", "sliver", "wide", "tall", "large"),
    *("slanted", "turned", "gray", "one bit", "palette", "transparent", "gray and alpha", "jpeg"),
)
PAGES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


@pytest.fixture(scope="module")
def plan() -> headrace.CompiledPlan:
    return headrace.compile(EXAMPLE / "ocr.pipe", schedule="default")


@pytest.fixture(scope="module")
def app(plan: headrace.CompiledPlan) -> Iterator[headrace.App]:
    with headrace.load(plan) as app:
        yield app


def assert_equal(ours: headrace.Record, theirs: Lines) -> None:
    texts, scores, boxes = theirs
    assert ours.text.tolist() == texts
    np.testing.assert_array_equal(ours.box, boxes)
    np.testing.assert_allclose(ours.score, scores, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.slow
def test_each_line_alone_is_read_as_the_package_reads_it(
    name: str, app: headrace.App, page: Callable[[str], bytes], package: Package
) -> None:
    photo = page(name)
    assert_equal(app.ocr(photo=photo), package(photo, False))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.slow
def test_lines_in_chunks_are_read_as_the_package_reads_them(
    name: str, app: headrace.App, page: Callable[[str], bytes], package: Package
) -> None:
    photo = page(name)
    assert_equal(app.ocr_chunked(photo=photo), package(photo, True))


@pytest.mark.slow
def test_all_lines_of_the_sign_are_read_whichever_way_up_they_are(
    app: headrace.App, page: Callable[[str], bytes], render: ModuleType
) -> None:
    assert tuple(app.ocr(photo=page("sign")).text) == render.SIGN


@pytest.mark.parametrize("pipeline", ["ocr", "ocr_chunked"])
@pytest.mark.slow
def test_a_blank_page_gives_empty_arrays_of_the_right_dtype_and_rank(
    pipeline: str, app: headrace.App, page: Callable[[str], bytes]
) -> None:
    found = app[pipeline](photo=page("blank"))
    assert (found.text.shape, found.text.dtype) == ((0,), object)
    assert (found.score.shape, found.score.dtype) == ((0,), np.float32)
    assert (found.box.shape, found.box.dtype) == ((0, 4, 2), np.float32)


@pytest.mark.slow
def test_a_caller_may_ask_for_surer_lines_only(
    app: headrace.App, page: Callable[[str], bytes]
) -> None:
    photo = page("slanted")
    everything = app.ocr(photo=photo, min_score=0.0)
    least = float(np.sort(everything.score)[len(everything.score) // 2])
    surer = app.ocr(photo=photo, min_score=least)
    kept = everything.score >= np.float32(least)
    assert surer.text.tolist() == everything.text[kept].tolist()
    assert 0 < len(surer.text) < len(everything.text)


@pytest.mark.slow
def test_what_is_no_image_names_the_stage_and_the_next_call_works(
    app: headrace.App, page: Callable[[str], bytes]
) -> None:
    with pytest.raises(headrace.Fault) as caught:
        app.ocr(photo=b"not an image")
    assert caught.value.stage == "open_page"
    assert "not an image of a known format" in caught.value.message
    assert caught.value.pipeline == "ocr"
    assert "ocr.pipe:" in str(caught.value.place)
    assert len(app.ocr(photo=page("sign")).text) == 12


@pytest.mark.slow
def test_pages_submitted_at_once_get_their_own_lines(
    app: headrace.App, page: Callable[[str], bytes]
) -> None:
    photos = {name: page(name) for name in ("slanted", "blank")}
    expected = {name: app.ocr(photo=photo) for name, photo in photos.items()}
    names = ("slanted", "blank", "slanted", "blank")
    futures = [app.ocr.submit(photo=photos[name]) for name in names]
    for future, name in zip(futures, names, strict=True):
        found, alone = future.result(timeout=60), expected[name]
        assert found.text.tolist() == alone.text.tolist()
        np.testing.assert_array_equal(found.box, alone.box)


def test_normalisation_is_inside_the_three_models(plan: headrace.CompiledPlan) -> None:
    explained = dict(plan.plan.explanation)["plan"]
    for model in ("detect", "angle", "read"):
        lines = [line for line in explained.splitlines() if f"segment {model} " in line]
        assert len(lines) == 2  # one a pipeline
        assert all("image.normalize + image.to_chw" in line for line in lines)


@pytest.mark.slow
def test_the_plan_reads_pages_where_the_sources_are_not(
    plan: headrace.CompiledPlan, tmp_path: Path, page: Callable[[str], bytes]
) -> None:
    plan.save(tmp_path / "ocr.plan")
    (tmp_path / "page.png").write_bytes(page("sign"))
    script = (
        "import headrace, pathlib\n"
        "with headrace.load('ocr.plan') as app:\n"
        "    print(*app.ocr(photo=pathlib.Path('page.png').read_bytes()).text, sep='|')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Riverside Station|Platform 2 for all trains north|")
