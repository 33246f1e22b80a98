"""Image files of all kinds, good and bad."""

import io
import struct
import zlib
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from tests.stdlib.calls import call

GENERATOR = np.random.default_rng(5)
PIXELS: Any = GENERATOR.integers(0, 256, (6, 9, 3)).astype(np.uint8)


def written(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def test_colours_come_in_the_order_asked_for() -> None:
    content = written(Image.fromarray(PIXELS))
    np.testing.assert_array_equal(call("image.decode", content), PIXELS)
    np.testing.assert_array_equal(call("image.decode", content, colour="bgr"), PIXELS[:, :, ::-1])


def test_a_jpeg_is_what_opencv_makes_of_it() -> None:
    content = written(Image.fromarray(PIXELS), "JPEG")
    want = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    np.testing.assert_array_equal(call("image.decode", content, colour="bgr"), want)


def test_grey_gets_three_channels() -> None:
    got = call("image.decode", written(Image.fromarray(PIXELS[:, :, 0])))
    np.testing.assert_array_equal(got, np.repeat(PIXELS[:, :, :1], 3, axis=2))


def test_sixteen_bits_are_cut_to_eight() -> None:
    wide = GENERATOR.integers(0, 65536, (4, 5)).astype(np.uint16)
    content = cv2.imencode(".png", wide)[1].tobytes()
    got = call("image.decode", content)
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got[:, :, 0], wide >> 8)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_are_white(mode: str) -> None:
    image = Image.new("RGBA", (3, 2), (10, 20, 30, 0))
    image.putpixel((1, 1), (10, 20, 30, 255))
    options = {"transparency": image.convert("P").getpixel((0, 0))} if mode == "P" else {}
    content = written(image.convert(mode), "PNG", **options)
    assert call("image.decode", content)[0, 0].tolist() == [255, 255, 255]


def test_half_transparent_pixels_are_mixed_with_white() -> None:
    content = written(Image.new("RGBA", (1, 1), (0, 100, 255, 51)))
    assert call("image.decode", content)[0, 0].tolist() == [204, 224, 255]


def test_a_palette_is_looked_up() -> None:
    image = Image.fromarray(PIXELS).convert("P")
    want = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(call("image.decode", written(image)), want)


@pytest.mark.parametrize("kind", ["WEBP", "BMP", "TIFF", "GIF"])
def test_other_formats_are_known_too(kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    content = written(
        Image.fromarray(PIXELS).convert("P" if kind == "GIF" else "RGB"), kind, **options
    )
    assert call("image.decode", content).shape == PIXELS.shape


@pytest.mark.parametrize(("orientation", "shape"), [(1, (6, 9, 3)), (3, (6, 9, 3)), (6, (9, 6, 3))])
def test_a_photo_is_turned_as_its_exif_says(orientation: int, shape: tuple[int, ...]) -> None:
    image = Image.fromarray(PIXELS)
    exif = image.getexif()
    exif[0x112] = orientation
    content = written(image, "JPEG", exif=exif)
    assert call("image.decode", content).shape == shape
    assert call("image.decode", content, orient=False).shape == (6, 9, 3)


def test_turning_moves_pixels_as_viewers_do() -> None:
    image = Image.fromarray(
        np.repeat(np.arange(0, 240, 30).astype(np.uint8)[:, None, None], 3, axis=2)
    )
    exif = image.getexif()
    exif[0x112] = 6  # the camera was turned: rotate by 90 degrees clockwise to view
    upright = call("image.decode", written(image, "JPEG", exif=exif, quality=100))
    assert upright.shape == (1, 8, 3)
    assert upright[0, 0, 0] > upright[0, -1, 0]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_file_cut_short_is_an_error(kind: str) -> None:
    content = written(Image.fromarray(np.tile(PIXELS, (9, 9, 1))), kind)
    for length in (0, 3, 20, len(content) // 2, len(content) - 20):
        with pytest.raises(ValueError, match=r"the image|no image"):
            call("image.decode", content[:length])


@pytest.mark.parametrize(
    "content", [b"", b"hello, this is not an image at all", b"\xff\xd8\xff\xe0"]
)
def test_what_is_no_image_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"the image|no image"):
        call("image.decode", content)


def test_a_damaged_file_is_an_error() -> None:
    content = bytearray(written(Image.fromarray(np.tile(PIXELS, (9, 9, 1)))))
    content[len(content) // 2] ^= 0xFF
    with pytest.raises(ValueError, match="damaged"):
        call("image.decode", bytes(content))


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND", b"")
    with pytest.raises(ValueError, match="60000 x 60000 pixels, more than the 100000000 allowed"):
        call("image.decode", bomb)


def test_the_limit_is_a_parameter() -> None:
    content = written(Image.fromarray(PIXELS))
    assert call("image.decode", content, max_pixels=54).shape == (6, 9, 3)
    with pytest.raises(ValueError, match="9 x 6 pixels, more than the 53 allowed"):
        call("image.decode", content, max_pixels=53)


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp"])
def test_what_is_encoded_can_be_decoded(kind: str) -> None:
    smooth = cv2.GaussianBlur(np.tile(PIXELS, (4, 4, 1)), (9, 9), 4)
    content = call("image.encode", smooth, kind)
    back = call("image.decode", content).astype(int)
    assert np.abs(back - smooth).max() <= (0 if kind == "png" else 40)
    assert np.abs(back - smooth).mean() < 4
