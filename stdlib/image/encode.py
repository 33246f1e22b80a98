"""From pixels to the bytes of an image file."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, Type
from ..constants import constant_choice
from ..images import FORM, nonempty
from ..op import Argument, Item, Literal, Op, OpTypeError, Param, Sample
from ..opencv import opencv
from ..rules import of_dtype, ranked, scalar, scalar_integer
from ..values import integer

FORMATS = ("png", "jpeg", "webp")
ORDERS = ("rgb", "bgr")


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "image", dims, DType.U8)
    ranked(found, "image", 2, 3, form=FORM)
    channels = dims.resolve(found.dims[2]) if len(found.dims) == 3 else 1
    if isinstance(channels, int) and channels not in (1, 3):
        raise OpTypeError("image", f"1 or 3 channels, not {found}")
    constant_choice(arguments[1], "format", FORMATS)
    quality = scalar_integer(arguments[2], "quality", dims)
    if quality is not None and not 1 <= quality <= 100:
        raise OpTypeError("quality", f"1 to 100, not {quality}")
    constant_choice(arguments[3], "colour", ORDERS)
    return scalar(DType.BYTES)


def reference(image: Item, format: str, quality: "Item | Literal", colour: str) -> bytes:
    cv2 = opencv()
    pixels = nonempty(image)
    if pixels.ndim == 3 and pixels.shape[2] == 3 and colour == "rgb":
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    options = {
        "png": [],
        "jpeg": [cv2.IMWRITE_JPEG_QUALITY, integer(quality)],
        "webp": [cv2.IMWRITE_WEBP_QUALITY, integer(quality)],
    }[format]
    done, content = cv2.imencode(f".{format}", pixels, options)
    if not done:
        raise ValueError(f"an image of shape {list(pixels.shape)} cannot be written as {format}")
    return content.tobytes()


def samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (7, 5, 3)).astype(np.uint8)
    return [(pixels,), (pixels[:, :, 0],), (pixels, "jpeg", 80), (pixels, "webp", 90, "bgr")]


OP = Op(
    name="image.encode",
    summary="Encodes u8 pixels as PNG (without loss), JPEG or WebP.",
    params=(
        Param("image", "An image [h, w] or [h, w, c] of u8 with 1 or 3 channels."),
        Param("format", '"png", "jpeg" or "webp".', True, has_default=True, default="png"),
        Param("quality", "1 to 100, for JPEG and WebP.", has_default=True, default=95),
        Param("colour", 'The order of the channels: "rgb" or "bgr".', True, True, default="rgb"),
    ),
    results=("data",),
    types=types,
    reference=reference,
    example='preview = image.encode(page, "jpeg", quality = 80)',
    samples=samples,
)
