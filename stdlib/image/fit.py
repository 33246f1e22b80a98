"""Resizing a page so that a network takes it: within bounds, sides multiples of a number."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DimArith, DType, TensorType, Type
from ..constants import constant_choice
from ..images import (
    IMAGE,
    INTERPOLATION,
    INTERPOLATIONS,
    image_type,
    interpolation_flag,
    nonempty,
    optional_integer,
    resized,
    same_channels,
    sides,
    size_value,
)
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..opencv import opencv
from ..rules import scalar_integer


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    image, max_side, min_side, multiple, interpolation = arguments
    found = image_type(image, dims)
    for argument, name in ((max_side, "max_side"), (min_side, "min_side")):
        bound = optional_integer(argument, name, dims)
        if bound is not None and bound < 1:
            raise OpTypeError(name, f"at least 1, not {bound}")
    step = scalar_integer(multiple, "multiple", dims)
    if step is not None and step < 1:
        raise OpTypeError("multiple", f"at least 1, not {step}")
    constant_choice(interpolation, "interpolation", INTERPOLATIONS)
    old = sides(found, dims)
    height: Dim = dims.fresh("h")
    width: Dim = dims.fresh("w")
    if old is not None and all(one.known for one in arguments[1:4]):
        height, width = target(*old, *(one.literal for one in arguments[1:4]))
    elif step is not None:
        height = dims.resolve(DimArith("*", step, height))
        width = dims.resolve(DimArith("*", step, width))
    return resized(found, height, width), TensorType(DType.F32, (2,))


def target(
    height: int,
    width: int,
    max_side: "Item | Literal",
    min_side: "Item | Literal",
    multiple: "Item | Literal",
) -> tuple[int, int]:
    """Return the new height and width; the aspect is kept up to rounding."""
    largest, least = size_value(max_side, "max_side"), size_value(min_side, "min_side")
    step = size_value(multiple, "multiple") or 1
    ratio = 1.0
    if least is not None and min(height, width) < least:
        ratio = least / min(height, width)
    if largest is not None and max(height, width) * ratio > largest:
        ratio = largest / max(height, width)
    new = (int(height * ratio), int(width * ratio))
    return max(step, round(new[0] / step) * step), max(step, round(new[1] / step) * step)


def reference(
    image: Item,
    max_side: "Item | Literal",
    min_side: "Item | Literal",
    multiple: "Item | Literal",
    interpolation: str,
) -> tuple[Array, Array]:
    cv2 = opencv()
    pixels = nonempty(image)
    height, width = pixels.shape[:2]
    new_height, new_width = target(height, width, max_side, min_side, multiple)
    flag = interpolation_flag(cv2, interpolation)
    page = cv2.resize(pixels, (new_width, new_height), interpolation=flag)
    ratio = np.array([new_width / width, new_height / height], np.float32)
    return same_channels(page, pixels), ratio


def samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (40, 70, 3)).astype(np.uint8)
    return [
        (pixels, 48, None, 16),
        (pixels, None, 60, 32),
        (pixels, 90, 60),
        (pixels[:, :, 0], np.array(20), None, np.array(8)),
        (pixels.astype(np.float32), None, None, 32),
    ]


OP = Op(
    name="image.fit",
    summary="Resizes so that the longer side is at most `max_side`, the shorter at least "
    "`min_side` (`max_side` wins), and both are multiples of `multiple`. The aspect is kept: "
    "sides are cut to integers, then rounded to the nearest multiple, which is at least one. "
    "`ratio` is new size over old, (x, y): a point of the page divided by it is one of the image.",
    params=(
        IMAGE,
        Param("max_side", "The most pixels of the longer side.", has_default=True),
        Param("min_side", "The fewest pixels of the shorter side.", has_default=True),
        Param("multiple", "What both sides are multiples of.", has_default=True, default=1),
        INTERPOLATION,
    ),
    results=("page", "ratio"),
    types=types,
    reference=reference,
    example="page, ratio = image.fit(img, max_side = 960, multiple = 32)",
    samples=samples,
)
