"""The cascades against both models called by hand."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import headrace
from headrace.dsl.read import read_source
from headrace.runtime.request import Request
from headrace.runtime.simulate import Simulation
from headrace.testing import run_tests
from tests.examples.conftest import EXAMPLES, load_module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its models made."""
    folder = copytree(EXAMPLES / "cascade", tmp_path_factory.mktemp("cascade") / "cascade")
    make: Any = load_module(folder / "make_models.py")
    for made in (make.quick(), make.exact()):
        onnx.save(made, folder / f"{made.graph.name}.onnx")
    return folder


@pytest.fixture(scope="module")
def app(folder: Path) -> Iterator[headrace.App]:
    with headrace.load(folder / "cascade.pipe", workers=2) as app:
        yield app


@pytest.fixture(scope="module")
def points(folder: Path) -> tuple[Any, Any]:
    make: Any = load_module(folder / "make_models.py")
    return make.points(300, seed=9)


def run(folder: Path, name: str, x: Any) -> Any:
    """Return what a model says of each point, one call a point as the plan does."""
    session: Any = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"))
    return np.concatenate([session.run(None, {"x": one[None]})[0] for one in x])


def test_doubtful_points_and_no_others_are_asked_about(
    app: headrace.App, folder: Path, points: tuple[Any, Any]
) -> None:
    x, label = points
    quick, exact = run(folder, "quick", x), run(folder, "exact", x)
    doubtful = quick.max(axis=1) < np.float32(0.9)
    expected = np.where(doubtful[:, None], exact, quick).argmax(axis=1)
    for got in (app.sort(points=x), app.sort.submit(points=x).result(20)):
        assert got.asked.tolist() == doubtful.tolist()
        assert got.label.tolist() == expected.tolist()
    assert 0 < doubtful.sum() < len(x) / 2
    right = [(answer == label).mean() for answer in (quick.argmax(1), expected, exact.argmax(1))]
    assert right[0] < right[1]
    assert right[1] >= right[2] - 0.01


def test_the_exact_model_answers_when_it_is_in_time_and_else_the_quick_one(
    folder: Path, points: tuple[Any, Any]
) -> None:
    plan = headrace.compile(folder / "cascade.pipe").plan
    x = points[0][:8]
    for seconds, name, late in ((0.001, "exact", 0), (0.5, "quick", 1)):
        expected = run(folder, name, x)
        for point, p in zip(x, expected, strict=True):
            costs = {"exact": seconds}
            simulation = Simulation(plan, workers=2, cost=lambda stage, _, c=costs: c.get(stage, 0))
            outcome = simulation.submit(Request("soon", {"point": point}))
            simulation.run()
            assert outcome.outputs is not None
            np.testing.assert_allclose(np.asarray(outcome.outputs["p"]), p, rtol=1e-6)
            assert sum(simulation.metrics.pipeline("soon").fallbacks.values()) == late
            assert outcome.at is not None
            assert outcome.at <= 0.021
            simulation.close()


def test_the_tests_in_the_file_pass(folder: Path) -> None:
    assert [one.failures for one in run_tests(read_source(folder / "cascade.pipe"))] == [(), ()]
