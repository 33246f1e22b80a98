"""Adding pixels around an image, to sides that are wanted."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DimArith, DType, TensorType, Type
from ..constants import constant_choice
from ..images import (
    IMAGE,
    INTERPOLATION,
    INTERPOLATIONS,
    fill_type,
    image_type,
    interpolation_flag,
    nonempty,
    padded,
    resized,
    same_channels,
    size_value,
    width_for,
)
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..opencv import opencv
from ..rules import scalar_integer, size_or_fresh
from ..values import integer

EDGES = ("top", "bottom", "left", "right")
VALUE = Param("value", "The new pixels: one number, or one a channel.", has_default=True, default=0)


def pad_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = image_type(arguments[0], dims)
    fill_type(arguments[5], found, dims)
    counts: list[Dim] = []
    for argument, name in zip(arguments[1:5], EDGES, strict=True):
        known = scalar_integer(argument, name, dims)
        if known is not None and known < 0:
            raise OpTypeError(name, f"at least 0, not {known}")
        counts.append(dims.fresh("n") if known is None else known)
    top, bottom, left, right = counts
    height = dims.resolve(DimArith("+", DimArith("+", found.dims[0], top), bottom))
    width = dims.resolve(DimArith("+", DimArith("+", found.dims[1], left), right))
    return (resized(found, height, width),)


def pad(
    image: Item,
    top: "Item | Literal",
    bottom: "Item | Literal",
    left: "Item | Literal",
    right: "Item | Literal",
    value: "Item | Literal",
) -> Array:
    counts = [integer(one) for one in (top, bottom, left, right)]
    if min(counts) < 0:
        raise ValueError(f"{counts} pixels cannot be added at top, bottom, left, right")
    around = [(counts[0], counts[1]), (counts[2], counts[3])]
    return padded(nonempty(image), around, value)


def pad_to_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    image, height, width, value, interpolation = arguments
    found = image_type(image, dims)
    new_height = size_or_fresh(height, "height", "h", dims)
    new_width = size_or_fresh(width, "width", "w", dims)
    fill_type(value, found, dims)
    constant_choice(interpolation, "interpolation", INTERPOLATIONS)
    return (resized(found, new_height, new_width),)


def pad_to(
    image: Item,
    height: "Item | Literal",
    width: "Item | Literal",
    value: "Item | Literal",
    interpolation: str,
) -> Array:
    pixels = nonempty(image)
    old_height, old_width = pixels.shape[:2]
    new_height = size_value(height, "height") or old_height
    new_width = size_value(width, "width") or old_width
    scaled = min(new_width, width_for(new_height, old_height, old_width))
    if (new_height, scaled) != (old_height, old_width):
        cv2 = opencv()
        flag = interpolation_flag(cv2, interpolation)
        small = cv2.resize(pixels, (scaled, new_height), interpolation=flag)
        pixels = same_channels(small, pixels)
    return padded(pixels, [(0, 0), (0, new_width - scaled)], value)


def letterbox_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    page = pad_to_types(arguments, dims)
    return *page, TensorType(DType.F32, (2,)), TensorType(DType.F32, (2,))


def letterbox(
    image: Item,
    height: "Item | Literal",
    width: "Item | Literal",
    value: "Item | Literal",
    interpolation: str,
) -> tuple[Array, Array, Array]:
    cv2 = opencv()
    pixels = nonempty(image)
    old_height, old_width = pixels.shape[:2]
    new_height = size_value(height, "height") or old_height
    new_width = size_value(width, "width") or old_width
    factor = min(new_height / old_height, new_width / old_width)
    inner_height = max(1, round(old_height * factor))
    inner_width = max(1, round(old_width * factor))
    if (inner_height, inner_width) != (old_height, old_width):
        flag = interpolation_flag(cv2, interpolation)
        small = cv2.resize(pixels, (inner_width, inner_height), interpolation=flag)
        pixels = same_channels(small, pixels)
    top, left = (new_height - inner_height) // 2, (new_width - inner_width) // 2
    around = [(top, new_height - inner_height - top), (left, new_width - inner_width - left)]
    page = padded(pixels, around, value)
    ratio = np.array([inner_width / old_width, inner_height / old_height], np.float32)
    return page, ratio, np.array([left, top], np.float32)


def pad_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (6, 5, 3)).astype(np.uint8)
    return [
        (pixels, 1, 2, 0, 3),
        (pixels, 1, 2, 0, 3, (1, 2, 3)),
        (pixels[:, :, 0], 0, np.array(2), 0, 3, 255),
        (pixels.astype(np.float32), 0, 0, 0, 0, -1.5),
    ]


def pad_to_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (12, 20, 3)).astype(np.uint8)
    return [
        (pixels, 12, 32),
        (pixels, 12, 16),
        (pixels, 24, 64, 127),
        (pixels, 6, 9, 0, "area"),
        (pixels, np.array(12), np.array(30), (1, 2, 3)),
        (pixels[:, :, 0].astype(np.float32), 12, 32, -1.0),
    ]


SIDES = (Param("height", "The height of the result."), Param("width", "The width of the result."))
OPS = (
    Op(
        name="image.pad",
        summary="Adds pixels of one value at the edges.",
        params=(
            IMAGE,
            Param("top", "How many rows to add at the top.", has_default=True, default=0),
            Param("bottom", "How many rows to add at the bottom.", has_default=True, default=0),
            Param("left", "How many columns to add at the left.", has_default=True, default=0),
            Param("right", "How many columns to add at the right.", has_default=True, default=0),
            VALUE,
        ),
        results=("image",),
        types=pad_types,
        reference=pad,
        example="framed = image.pad(page, top = 8, bottom = 8)",
        samples=pad_samples,
    ),
    Op(
        name="image.pad_to",
        summary="Gives a line of text, or the like, the sides that a network wants: resizes it to "
        "`height` keeping the aspect (the width is rounded up; if it is more than `width` it is "
        "squeezed to that), then adds pixels at the right up to `width`. An image that is "
        "`height` high and no wider than `width` is only padded.",
        params=(IMAGE, *SIDES, VALUE, INTERPOLATION),
        results=("image",),
        types=pad_to_types,
        reference=pad_to,
        example="line = image.pad_to(crop, 48, 192)",
        samples=pad_to_samples,
    ),
    Op(
        name="image.letterbox",
        summary="Resizes to fit into `height` x `width` keeping the aspect, and adds pixels around "
        "so that it stands in the middle. A point p of the page is (p - offset) / ratio of the "
        "image; both are (x, y).",
        params=(IMAGE, *SIDES, VALUE, INTERPOLATION),
        results=("page", "ratio", "offset"),
        types=letterbox_types,
        reference=letterbox,
        example="page, ratio, offset = image.letterbox(img, 640, 640, value = 114)",
        samples=pad_to_samples,
    ),
)
