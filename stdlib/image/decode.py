"""From the bytes of an image file to pixels."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_bool, constant_choice
from ..op import Argument, Array, Item, Literal, Op, Param, Sample
from ..opencv import opencv
from ..rules import of_dtype, scalar_integer
from ..values import integer

JPEG = b"\xff\xd8"
PNG = b"\x89PNG\r\n\x1a\n"
ORDERS = ("rgb", "bgr")


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    of_dtype(arguments[0], "data", dims, DType.BYTES)
    constant_choice(arguments[1], "colour", ORDERS)
    constant_bool(arguments[2], "orient")
    scalar_integer(arguments[3], "max_pixels", dims)
    return (TensorType(DType.U8, (dims.fresh("h"), dims.fresh("w"), 3)),)


def reference(data: bytes, colour: str, orient: bool, max_pixels: "Item | Literal") -> Array:
    cv2 = opencv()
    check_size(data, integer(max_pixels))
    flags = cv2.IMREAD_COLOR if orient else cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    if is_transparent(data):
        pixels = over_white(decoded(cv2, data, cv2.IMREAD_UNCHANGED))
    else:
        pixels = decoded(cv2, data, flags)
    return pixels if colour == "bgr" else cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


def check_size(content: bytes, most: int) -> None:
    """Refuse what is no image or has more pixels than allowed, before anything is unpacked."""
    try:
        import imagesize
    except ImportError as error:
        raise ImportError("image.decode needs imagesize: pip install headrace[image]") from error
    if not content:
        raise ValueError("the image is empty: 0 bytes")
    try:
        width, height = imagesize.get(BytesIO(content))
    except (ValueError, OSError, IndexError, OverflowError) as error:
        raise ValueError(f"the image is damaged: {error}") from error
    if width < 1 or height < 1:
        raise ValueError(
            f"{len(content)} bytes are no image of a known format (JPEG, PNG, WebP, TIFF, ...)"
        )
    if width * height > most:
        raise ValueError(f"the image is {width} x {height} pixels, more than the {most} allowed")


def decoded(cv2: Any, content: bytes, flags: int) -> Array:  # Any: see opencv
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), flags)
    except cv2.error as error:
        raise ValueError(f"the image cannot be decoded: {error.err}") from error
    if pixels is None:
        raise ValueError("the image is damaged, cut short or of a kind that cannot be decoded")
    return pixels


def is_transparent(content: bytes) -> bool:
    """Return whether a PNG or WebP says in its header that it has transparent pixels."""
    if content.startswith(PNG):
        has_alpha = len(content) > 25 and bool(content[25] & 4)
        return has_alpha or content.find(b"tRNS", 0, content.find(b"IDAT") + 1) >= 0
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP" and len(content) > 24:
        extended = content[12:16] == b"VP8X" and bool(content[20] & 0x10)
        return extended or (content[12:16] == b"VP8L" and bool(content[24] & 0x10))
    return False


def over_white(pixels: Array) -> Array:
    """Return BGRA of 8 or 16 bits as BGR of 8, laid over white as viewers do."""
    if pixels.dtype == np.uint16:
        pixels = (np.asarray(pixels, np.uint16) >> 8).astype(np.uint8)
    if pixels.ndim == 2:
        return np.repeat(pixels[:, :, None], 3, axis=2)
    if pixels.shape[2] == 3:
        return pixels
    alpha = pixels[:, :, 3:].astype(np.uint16)
    mixed = pixels[:, :, :3].astype(np.uint16) * alpha + 255 * (255 - alpha)
    return ((mixed + 127) // 255).astype(np.uint8)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    cv2 = opencv()
    pixels = random.integers(0, 256, (7, 5, 3)).astype(np.uint8)

    def encoded(kind: str, image: Array) -> bytes:
        return cv2.imencode(kind, image)[1].tobytes()

    clear = np.dstack([pixels, pixels[:, :, 0]])
    return [
        (encoded(".png", pixels),),
        (encoded(".jpg", pixels), "bgr"),
        (encoded(".png", pixels[:, :, 0]), "rgb", False),
        (encoded(".png", pixels.astype(np.uint16) * 257),),
        (encoded(".png", clear), "rgb", True, 35),
    ]


OP = Op(
    name="image.decode",
    summary="Decodes JPEG, PNG, WebP, TIFF, BMP, GIF and more to three channels of u8. "
    "Grey and palette images get three channels, 16 bits are cut to 8, transparent PNG and WebP "
    "are laid over white (their EXIF orientation is not looked at).",
    params=(
        Param("data", "The bytes of an image file."),
        Param(
            "colour",
            'The order of the channels: "rgb" or "bgr".',
            constant=True,
            has_default=True,
            default="rgb",
        ),
        Param(
            "orient",
            "Turn the image upright as its EXIF orientation says.",
            constant=True,
            has_default=True,
            default=True,
        ),
        Param(
            "max_pixels",
            "The most pixels that are unpacked; a larger image is an error.",
            has_default=True,
            default=100_000_000,
        ),
    ),
    results=("image",),
    types=types,
    reference=reference,
    example="img = image.decode(photo)",
    samples=samples,
)
