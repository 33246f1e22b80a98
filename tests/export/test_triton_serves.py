"""An exported program answers as it does here: on a real tritonserver, and on a server of ours that
runs the repository as one of Triton's, with its BLS models in processes of their own."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import headrace
from headrace import App, Client, Fault, RequestError
from headrace.compiler.plan import Plan
from headrace.export.target import Subject, all_targets
from tests.export.programs import write_program
from tests.export.tritonserver import Address, tritonserver
from tests.triton.test_run import following

pytestmark = pytest.mark.slow


Serve = Callable[[Path, Path], AbstractContextManager[Address]]


class Both(NamedTuple):
    here: App
    there: Client


@contextmanager
def ours(repository: Path, folder: Path) -> Generator[Address]:
    """Serve a repository as `headrace run --model-repository` does."""
    del folder
    with following(repository) as (_, http, grpc):
        yield Address(http, grpc)


@contextmanager
def both_of(plan: Plan, folder: Path, serve: Serve = tritonserver) -> Generator[Both]:
    """Load a plan, and export it to a server."""
    target = all_targets()["triton"]
    made = target.make(Subject(plan, "kinds", {"onnx": "python", "instances": "1"}))
    repository = folder / "repository"
    for name, content in made.files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(content)
    with (
        serve(repository, folder) as address,
        headrace.load(plan) as app,
        Client(f"grpc://{address.grpc}") as client,
    ):
        yield Both(app, client)


@pytest.fixture(scope="module", params=[tritonserver, ours], ids=["triton", "ours"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Both]:
    folder = tmp_path_factory.mktemp("export")
    with both_of(headrace.compile(write_program(folder)).plan, folder, request.param) as both:
        yield both


POINTS = np.arange(24, dtype=np.float32).reshape(6, 4) / 20


def vector(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_an_ensemble_without_rows(both: Both) -> None:
    for x in (POINTS[5], vector(3), vector(-1, 0, 7)):
        here, there = both.here.chain(x=x), both.there.chain(x=x)
        np.testing.assert_array_equal(there.y, here.y)
        assert there.top == here.top == x.max() / 2


def test_an_ensemble_with_rows(both: Both) -> None:
    here, there = both.here.rows(x=POINTS), both.there.rows(x=POINTS)
    np.testing.assert_array_equal(there.y, here.y)
    np.testing.assert_array_equal(there.top, here.top)


@pytest.mark.parametrize("sure", [None, 0.0, 0.9, 9.0])
def test_a_cascade(both: Both, sure: float | None) -> None:
    given = {} if sure is None else {"sure": sure}
    here, there = (
        both.here.cascade(points=POINTS, **given),
        both.there.cascade(points=POINTS, **given),
    )
    np.testing.assert_array_equal(there.top, here.top)
    np.testing.assert_array_equal(there.asked, here.asked)


def test_a_loop(both: Both) -> None:
    for x, most in ((vector(9, 700, 3), 20), (vector(9, 700), 2), (POINTS[0], 0)):
        here, there = both.here.settle(x=x, most=most), both.there.settle(x=x, most=most)
        np.testing.assert_array_equal(there.y, here.y)
        assert there.turns == here.turns


def test_a_stream(both: Both) -> None:
    here = [one.y for one in both.here.fading.stream(x=POINTS[1], most=3)]
    there = [one.y for one in both.there.fading.stream(x=POINTS[1], most=3)]
    np.testing.assert_array_equal(there, here)
    assert len(there) == 3


def test_sequences_that_do_not_mix(both: Both) -> None:
    with both.there.total.sequence() as one, both.there.total.sequence() as other:
        sums = [one(x=POINTS[0]).sum, other(x=POINTS[5]).sum, one(x=POINTS[1]).sum]
    np.testing.assert_array_equal(
        sums, [POINTS[0] / 2, POINTS[5] / 2, POINTS[0] / 2 + POINTS[1] / 2]
    )


def test_streams_of_a_sequence(both: Both) -> None:
    with both.there.drip.sequence() as one, both.there.drip.sequence() as other:
        sums = [
            [response.sum for response in calls.stream(x=x, most=count)]
            for calls, x, count in ((one, POINTS[0], 2), (other, POINTS[5], 1), (one, POINTS[1], 3))
        ]
    np.testing.assert_array_equal(sums[0], [POINTS[0] / 2] * 2)
    np.testing.assert_array_equal(sums[1], [POINTS[5] / 2])
    np.testing.assert_array_equal(sums[2], [POINTS[0] / 2 + POINTS[1] / 2] * 3)


def test_text_and_lists_of_open_shape(both: Both) -> None:
    given = {"words": ["ja", "straße", ""], "parts": [POINTS[2], POINTS[3][:1]]}
    here, there = both.here.words(**given), both.there.words(**given)
    assert list(there.loud) == list(here.loud) == ["JA", "STRASSE", ""]
    for ours, theirs in zip(here.halves, there.halves, strict=True):
        np.testing.assert_array_equal(theirs, ours)


def test_a_wrong_request_is_refused_in_our_words_and_the_next_works(both: Both) -> None:
    with pytest.raises(RequestError, match=r"expected f32\[N, 4\]"):
        both.there.cascade(points=POINTS[:, :2])
    with pytest.raises(Fault, match="`max` of the loop is -1"):
        both.there.settle(x=POINTS[0], most=-1)
    assert both.there.settle(x=POINTS[0], most=1).turns == 1


@pytest.mark.exhaustive
def test_pages_are_read_as_here(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "examples" / "ocr" / "ocr.pipe"
    pytest.importorskip("rapidocr_onnxruntime", reason="the models of the example")
    with both_of(headrace.compile(source, schedule="server").plan, tmp_path) as both:
        for page in sorted(source.parent.glob("pages/*.png")):
            ours, theirs = (one.ocr(photo=page.read_bytes()) for one in (both.here, both.there))
            assert list(theirs.text) == list(ours.text)
            np.testing.assert_array_equal(theirs.score, ours.score)
            np.testing.assert_array_equal(theirs.box, ours.box)
