"""The Python stages of the OCR example, against the package's own steps on random input."""

import io
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest

ROUNDS = 200


@pytest.fixture(scope="module")
def detector() -> Any:
    return pytest.importorskip("rapidocr_onnxruntime.ch_ppocr_det.text_detect").TextDetector


@pytest.fixture(scope="module")
def postprocess() -> Any:
    module = pytest.importorskip("rapidocr_onnxruntime.ch_ppocr_det.utils")
    return module.DBPostProcess(thresh=0.3, box_thresh=0.5, unclip_ratio=1.6, use_dilation=True)


def spots(random: np.random.Generator) -> np.ndarray:
    """Return a heat map with slanted bars of text, warm haloes and noise."""
    heat = np.zeros((160, 256), np.float32)
    for _ in range(int(random.integers(0, 9))):
        center = (float(random.uniform(0, 256)), float(random.uniform(0, 160)))
        size = (float(random.uniform(2, 120)), float(random.uniform(2, 24)))
        corners = cv2.boxPoints((center, size, float(random.uniform(-20, 90))))
        cv2.fillPoly(heat, [corners.astype(np.int32)], (float(random.uniform(0.3, 1)),))
    heat = cv2.GaussianBlur(heat, (3, 3), 0)
    return np.clip(heat + random.normal(0, 0.04, heat.shape), 0, 1).astype(np.float32)


def test_lines_are_found_where_the_package_finds_them(
    stages: ModuleType, detector: Any, postprocess: Any
) -> None:
    package = pytest.importorskip("rapidocr_onnxruntime").RapidOCR
    random = np.random.default_rng(1)
    found = 0
    for _ in range(ROUNDS):
        heat = spots(random)
        width, height = int(random.integers(30, 900)), int(random.integers(30, 700))
        boxes, _ = postprocess(heat[None, None], (height, width))
        boxes = detector.filter_tag_det_res(_Ordering(detector), boxes, (height, width))
        expected = package.sorted_boxes(boxes)
        frame = np.array((width, height, 0, 1, 1, width, height), np.float32)
        ours, _ = stages.find_lines(heat[None], frame)
        np.testing.assert_array_equal(ours, np.array(expected, np.float32).reshape(-1, 4, 2))
        found += len(ours)
    assert found > ROUNDS


class _Ordering:
    """The two methods of the package's detector that its filter calls, without its model."""

    def __init__(self, detector: Any) -> None:
        self.detector = detector

    def order_points_clockwise(self, points: np.ndarray) -> np.ndarray:
        return self.detector.order_points_clockwise(self, points)

    def clip_det_res(self, points: np.ndarray, height: int, width: int) -> np.ndarray:
        return self.detector.clip_det_res(self, points, height, width)


def test_rectangles_grow_as_the_package_grows_them(stages: ModuleType, postprocess: Any) -> None:
    random = np.random.default_rng(2)
    for _ in range(ROUNDS):
        size = (float(random.uniform(3, 300)), float(random.uniform(3, 60)))
        center = (float(random.uniform(0, 1000)), float(random.uniform(0, 1000)))
        corners = cv2.boxPoints((center, size, float(random.uniform(0, 90))))
        ours = stages._grow(corners.tolist())
        np.testing.assert_array_equal(ours, postprocess.unclip(corners).reshape(-1, 2))


def test_equal_shapes_share_chunks_as_numpy_sorts_them(stages: ModuleType) -> None:
    random = np.random.default_rng(4)
    for _ in range(ROUNDS):
        sizes = random.choice(
            [(48, 320), (48, 330), (48, 480), (24, 400)], size=random.integers(1, 40)
        )
        crops = [np.zeros((height, width, 3), np.uint8) for height, width in sizes]
        order = np.argsort(np.array([width / float(height) for height, width in sizes]))
        expected = np.zeros(len(crops), np.int64)
        for start in range(0, len(crops), 6):
            chunk = order[start : start + 6]
            widest = max([320 / 48, *(sizes[place][1] / sizes[place][0] for place in chunk)])
            expected[chunk] = int(48 * widest)
        np.testing.assert_array_equal(stages.chunk_widths(crops), expected)


def test_no_crops_have_no_widths(stages: ModuleType) -> None:
    widths = stages.chunk_widths([])
    assert widths.shape == (0,)
    assert widths.dtype == np.int64


def test_a_strip_is_padded_after_the_crop_and_says_where(stages: ModuleType) -> None:
    strip, ink = stages.strip(np.full((24, 60, 3), 7, np.uint8), 192)
    assert strip.shape == (48, 192, 3)
    assert (strip[:, :120] == 7).all()
    assert ink.tolist() == [True] * 120 + [False] * 72


def test_a_crop_wider_than_its_strip_is_squeezed(stages: ModuleType) -> None:
    strip, ink = stages.strip(np.full((48, 900, 3), 7, np.uint8), 192)
    assert strip.shape == (48, 192, 3)
    assert (strip == 7).all()
    assert ink.all()


def test_an_image_of_sixteen_bits_is_refused(stages: ModuleType) -> None:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.full((40, 40), 40_000, np.uint16)).save(buffer, "PNG")
    with pytest.raises(ValueError, match="no 8-bit channels"):
        stages.open_page(buffer.getvalue())


def test_a_photo_too_thin_to_scale_is_refused(stages: ModuleType) -> None:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (9000, 12)).save(buffer, "PNG")
    with pytest.raises(ValueError, match="9000 x 12 pixels is too thin"):
        stages.open_page(buffer.getvalue())
