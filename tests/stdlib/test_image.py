"""Image ops against OpenCV called directly, and what they do at the edges."""

from typing import Any

import cv2
import numpy as np
import pytest

from headrace.dsl.dims import Dims
from headrace.dsl.types import DType
from tests.stdlib.calls import call, refusal, tensor, types

U8, F32 = DType.U8, DType.F32
PIXELS: Any = np.random.default_rng(3).integers(0, 256, (40, 70, 3)).astype(np.uint8)
QUAD = np.array([[5, 4], [60, 9], [57, 31], [3, 27]], np.float32)


def test_resizing_to_a_size_is_cv2_resize() -> None:
    for name, flag in (("linear", cv2.INTER_LINEAR), ("area", cv2.INTER_AREA)):
        want = cv2.resize(PIXELS, (33, 21), interpolation=flag)
        np.testing.assert_array_equal(
            call("image.resize", PIXELS, 21, 33, interpolation=name), want
        )


def test_resizing_by_a_factor_is_cv2_resize() -> None:
    want = cv2.resize(PIXELS, None, fx=0.37, fy=0.37)
    np.testing.assert_array_equal(call("image.resize", PIXELS, scale=0.37), want)


def test_resizing_to_a_height_keeps_the_aspect_rounded_up() -> None:
    assert call("image.resize", PIXELS, 48).shape == (48, 84, 3)
    assert call("image.resize", PIXELS, 48, max_width=60).shape == (48, 60, 3)
    assert types("image.resize", tensor(U8, 40, 70, 3), 48) == tensor(U8, 48, 84, 3)


def test_resizing_wants_a_size_or_a_factor() -> None:
    assert "either a size" in refusal("image.resize", tensor(U8, 40, 70, 3))
    assert "either a size" in refusal("image.resize", tensor(U8, 40, 70, 3), 20, 20, 0.5)
    assert refusal("image.resize", tensor(U8, 4, 7), 0, 3) == "height: a size of at least 1, not 0"


def test_fitting_bounds_the_longer_side_and_rounds_to_multiples() -> None:
    page, ratio = call("image.fit", PIXELS, max_side=50, multiple=16)
    # 70 x 40 becomes 50 x 28, then 48 x 32
    np.testing.assert_array_equal(page, cv2.resize(PIXELS, (48, 32)))
    np.testing.assert_array_equal(ratio, np.array([48 / 70, 32 / 40], np.float32))


def test_fitting_can_enlarge_the_shorter_side() -> None:
    page, _ = call("image.fit", PIXELS, min_side=736, multiple=32)
    assert page.shape == (736, 1280, 3)


def test_a_tiny_image_fits_one_multiple() -> None:
    assert call("image.fit", PIXELS[:3, :3], multiple=32)[0].shape == (32, 32, 3)


def test_fitted_sides_are_known_to_be_multiples() -> None:
    dims = Dims()
    image = tensor(U8, dims.fresh("h"), dims.fresh("w"), 3)
    page, ratio = types("image.fit", image, 960, None, 32, dims=dims)
    assert str(page) == "u8[32 * h, 32 * w, 3]"
    assert ratio == tensor(F32, 2)


def test_an_image_of_the_wanted_height_is_only_padded() -> None:
    line = call("image.pad_to", PIXELS, 40, 90, value=(1, 2, 3))
    np.testing.assert_array_equal(line[:, :70], PIXELS)
    np.testing.assert_array_equal(line[:, 70:], np.broadcast_to((1, 2, 3), (40, 20, 3)))


def test_an_image_of_another_height_is_resized_before_it_is_padded() -> None:
    line = call("image.pad_to", PIXELS, 20, 90)
    np.testing.assert_array_equal(line[:, :35], cv2.resize(PIXELS, (35, 20)))
    assert not line[:, 35:].any()


def test_an_image_that_stays_too_wide_is_squeezed() -> None:
    want = cv2.resize(PIXELS, (50, 40))
    np.testing.assert_array_equal(call("image.pad_to", PIXELS, 40, 50), want)


def test_a_letterbox_says_where_points_went() -> None:
    page, ratio, offset = call("image.letterbox", PIXELS, 70, 70, value=114)
    assert page.shape == (70, 70, 3)
    np.testing.assert_array_equal(page[15:55], PIXELS)
    assert (page[:15] == 114).all()
    assert (ratio.tolist(), offset.tolist()) == ([1, 1], [0, 15])


def test_a_fill_value_is_a_pixel() -> None:
    with pytest.raises(ValueError, match="a u8 pixel is 0 to 255"):
        call("image.pad_to", PIXELS, 40, 90, value=300)
    assert refusal("image.pad", tensor(U8, 4, 5, 3), 0, 0, 0, 0, (1, 2)).startswith(
        "value: one number for each channel of u8[4, 5, 3]"
    )


def test_warping_is_opencv_s_perspective() -> None:
    width, height = 55, 23  # the longer of opposite sides
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    want = cv2.warpPerspective(
        PIXELS,
        cv2.getPerspectiveTransform(QUAD, target),
        (width, height),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    np.testing.assert_array_equal(call("image.warp", PIXELS, QUAD), want)


def test_warping_to_a_height_keeps_the_aspect() -> None:
    assert call("image.warp", PIXELS, QUAD, 48).shape == (48, 115, 3)
    dims = Dims()
    found = types("image.warp", tensor(U8, 9, 9, 3), tensor(F32, 4, 2), 48, dims=dims)
    assert found.dims[0] == 48
    assert found.dims[2] == 3


def test_a_quad_of_another_shape_is_refused() -> None:
    assert refusal("image.warp", tensor(U8, 9, 9, 3), tensor(F32, 3, 2)) == (
        "quad: f32[4, 2], not f32[3, 2]: 3 and 4 differ"
    )


def test_a_quad_that_is_no_quad_is_an_error() -> None:
    with pytest.raises(ValueError, match="are no points"):
        call("image.warp", PIXELS, np.full((4, 2), np.nan, np.float32))
    with pytest.raises(ValueError, match="beyond 32766 pixels"):
        call("image.warp", PIXELS, QUAD * 10_000)


def test_an_image_without_pixels_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no pixels"):
        call("image.resize", PIXELS[:0], 4, 4)


def test_cropping_outside_of_the_image_is_an_error() -> None:
    np.testing.assert_array_equal(call("image.crop", PIXELS, 2, 3, 4, 5), PIXELS[2:6, 3:8])
    with pytest.raises(ValueError, match="reach beyond an image of 40 x 70"):
        call("image.crop", PIXELS, 38, 0, 4, 5)
    assert refusal("image.crop", tensor(U8, 40, 70), 38, 0, 4, 5).startswith("height: an end")


def test_turns_are_clockwise() -> None:
    for name, code in (
        ("rotate90", cv2.ROTATE_90_CLOCKWISE),
        ("rotate180", cv2.ROTATE_180),
        ("rotate270", cv2.ROTATE_90_COUNTERCLOCKWISE),
    ):
        np.testing.assert_array_equal(call(f"image.{name}", PIXELS), cv2.rotate(PIXELS, code))


def test_normalizing_rounds_to_f32_after_each_step() -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    x = PIXELS.astype(np.float32)
    scaled = x * np.float32(1 / 255)
    want = (scaled - np.array(mean, np.float32)) / np.array(std, np.float32)
    np.testing.assert_array_equal(call("image.normalize", PIXELS, mean, std), want)


def test_normalizing_can_divide_instead() -> None:
    want = PIXELS.astype(np.float32)
    want /= 255
    want -= 0.5
    want /= 0.5
    np.testing.assert_array_equal(call("image.normalize", PIXELS, divisor=255), want)
    assert "left out beside `scale`" in refusal(
        "image.normalize", tensor(U8, 4, 5, 3), 0.5, 0.5, 0.1, 255
    )


def test_constants_for_another_number_of_channels_are_refused() -> None:
    assert refusal("image.normalize", tensor(U8, 4, 5, 3), (0.5, 0.5)) == (
        "mean: one number, or one for each channel of u8[4, 5, 3]"
    )


def test_channels_first_and_back() -> None:
    x = call("image.to_chw", PIXELS)
    assert x.shape == (3, 40, 70)
    np.testing.assert_array_equal(call("image.to_hwc", x), PIXELS)
    assert types("image.to_chw", tensor(U8, 4, 5)) == tensor(U8, 1, 4, 5)


def test_grey_is_weighted_by_the_order_of_the_channels() -> None:
    np.testing.assert_array_equal(
        call("image.grayscale", PIXELS, "bgr"), cv2.cvtColor(PIXELS, cv2.COLOR_BGR2GRAY)
    )
    assert refusal("image.grayscale", tensor(U8, 4, 5, 4)).startswith("image: an image [h, w, 3]")


def test_colours_convert_as_opencv_does() -> None:
    hsv = call("image.convert", PIXELS, "rgb", "hsv")
    np.testing.assert_array_equal(hsv, cv2.cvtColor(PIXELS, cv2.COLOR_RGB2HSV))
    red = np.array([[[255, 0, 0]]], np.uint8)
    assert call("image.convert", red, "rgb", "hsv")[0, 0].tolist() == [0, 255, 255]
    lab = call("image.convert", hsv, "hsv", "lab")
    want = cv2.cvtColor(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), cv2.COLOR_RGB2Lab)
    np.testing.assert_array_equal(lab, want)
    assert refusal("image.convert", tensor(U8, 4, 5), "rgb", "hsv") == (
        "image: of 3 channels for rgb, not u8[4, 5]: 1 and 3 differ"
    )


def test_drawing_leaves_the_image_as_it_is() -> None:
    black = np.zeros((9, 9), np.uint8)
    box = np.array([[2, 2, 6, 6]], np.float32)
    drawn = call("image.draw_boxes", black, box, 7, 1)
    assert not black.any()
    assert np.count_nonzero(drawn == 7) == 16
    quad = np.array([[[2, 2], [6, 2], [6, 6], [2, 6]]], np.float32)
    np.testing.assert_array_equal(call("image.draw_quads", black, quad, 7, 1), drawn)


def test_drawing_on_channels_wants_a_colour_of_as_many() -> None:
    quads = tensor(F32, 1, 4, 2)
    assert refusal("image.draw_quads", tensor(U8, 9, 9, 3), quads, (1, 2)) == (
        "colour: one number, or one for each channel of u8[9, 9, 3]"
    )
    assert "from 0 to 255" in refusal("image.draw_quads", tensor(U8, 9, 9, 3), quads, 256)


def test_corners_that_are_no_points_are_not_drawn() -> None:
    with pytest.raises(ValueError, match="NaN or infinite"):
        call("image.draw_boxes", PIXELS, np.full((1, 4), np.nan, np.float32))


def test_labels_are_written_where_they_are_told() -> None:
    black = np.zeros((40, 90), np.uint8)
    points = np.array([[5, 30]], np.float32)
    shown = call("image.draw_labels", black, np.array(["EXIT"], object), points, 255, 20)
    rows = np.flatnonzero(shown.any(axis=1))
    assert 8 <= rows.min() <= 12
    assert 29 <= rows.max() <= 32


def test_tiles_cover_the_image() -> None:
    seen = np.zeros(PIXELS.shape[:2], np.int64)
    tiles, corners = call("image.tiles", PIXELS, 16, overlap=4)
    for tile, (x, y) in zip(tiles, corners, strict=True):
        np.testing.assert_array_equal(tile, PIXELS[y : y + 16, x : x + 16])
        seen[y : y + 16, x : x + 16] += 1
    assert seen.all()
    with pytest.raises(ValueError, match="40 x 70 has no tile of 41"):
        call("image.tiles", PIXELS, 41)


def test_a_fill_that_is_no_pixel_is_refused() -> None:
    image = tensor(U8, 4, 5, 3)
    assert refusal("image.pad_to", image, 8, 8, 256) == "value: a pixel of u8, 0 to 255, not 256"
    assert types("image.pad_to", tensor(F32, 4, 5, 3), 8, 8, -1) == tensor(F32, 8, 8, 3)
    with pytest.raises(ValueError, match="a u8 pixel is 0 to 255"):
        call("image.pad_to", PIXELS, 80, 80, np.array(256))


def test_the_middle_is_cut_out() -> None:
    np.testing.assert_array_equal(call("image.center_crop", PIXELS, 39, 3), PIXELS[:39, 33:36])
    assert refusal("image.center_crop", tensor(U8, 4, 5), 5, 5) == (
        "height: at most 4, as u8[4, 5] has, not 5"
    )


@pytest.mark.parametrize("name", ["grayscale", "fit", "rotate90", "to_gray_and_back"])
def test_an_image_known_to_be_without_pixels_is_refused(name: str) -> None:
    arguments = ("rgb", "gray") if name == "to_gray_and_back" else ()
    op = "image.convert" if name == "to_gray_and_back" else f"image.{name}"
    assert refusal(op, tensor(U8, 0, 5, 3), *arguments) == (
        "image: an image with pixels, not u8[0, 5, 3]"
    )
