"""Resizing to a size or by a factor, exactly as cv2.resize does."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, Type
from ..constants import constant_choice
from ..images import (
    IMAGE,
    INTERPOLATION,
    INTERPOLATIONS,
    image_type,
    interpolation_flag,
    is_absent,
    nonempty,
    optional_integer,
    optional_size,
    resized,
    same_channels,
    sides,
    size_value,
    width_for,
)
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..opencv import opencv
from ..rules import tensor


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    image, height, width, scale, max_width, interpolation = arguments
    found = image_type(image, dims)
    constant_choice(interpolation, "interpolation", INTERPOLATIONS)
    by_size = not (is_absent(height) and is_absent(width))
    if by_size == (not is_absent(scale)):
        raise OpTypeError(None, "either a size (`height`, `width`) or a `scale`")
    check_limit(max_width, height, width, dims)
    if not by_size:
        factor = tensor(scale, "scale", dims)
        if factor.dims or not factor.dtype.is_number:
            raise OpTypeError("scale", f"one number, not {factor}")
        return (resized(found, dims.fresh("h"), dims.fresh("w")),)
    new = [optional_size(height, "height", "h", dims), optional_size(width, "width", "w", dims)]
    old = sides(found, dims)
    literals = [one.literal for one in (height, width, max_width)]
    if old is not None and all(one.known for one in (height, width, max_width)):
        return (resized(found, *target(*old, *literals)),)
    sizes: list[Dim] = [
        dims.fresh(name) if size is None else size
        for size, name in zip(new, ("h", "w"), strict=True)
    ]
    return (resized(found, *sizes),)


def check_limit(limit: Argument, height: Argument, width: Argument, dims: Dims) -> None:
    if is_absent(limit):
        return
    optional_integer(limit, "max_width", dims)
    if is_absent(height) or not is_absent(width):
        raise OpTypeError(
            "max_width", "left out unless `height` is given alone: it limits the width that follows"
        )


def target(
    old_height: int,
    old_width: int,
    height: "Item | Literal",
    width: "Item | Literal",
    max_width: "Item | Literal",
) -> tuple[int, int]:
    """Return the new height and width; the one that is left out keeps the aspect."""
    new_height, new_width = size_value(height, "height"), size_value(width, "width")
    if new_height is None:
        assert new_width is not None
        return width_for(new_width, old_width, old_height), new_width
    if new_width is None:
        new_width = width_for(new_height, old_height, old_width)
        limit = size_value(max_width, "max_width")
        new_width = new_width if limit is None else min(new_width, limit)
    return new_height, new_width


def reference(
    image: Item,
    height: "Item | Literal",
    width: "Item | Literal",
    scale: "Item | Literal",
    max_width: "Item | Literal",
    interpolation: str,
) -> Array:
    cv2 = opencv()
    pixels = nonempty(image)
    flag = interpolation_flag(cv2, interpolation)
    if scale is not None:
        factor = float(np.asarray(scale).item())
        if not factor > 0 or min(pixels.shape[:2]) * factor < 0.5:
            raise ValueError(f"a scale of {factor} leaves nothing of {list(pixels.shape)}")
        new = cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=flag)
    else:
        old_height, old_width = pixels.shape[:2]
        new_height, new_width = target(old_height, old_width, height, width, max_width)
        new = cv2.resize(pixels, (new_width, new_height), interpolation=flag)
    return same_channels(new, pixels)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (12, 10, 3)).astype(np.uint8)
    return [
        (pixels, 24, 15),
        (pixels, 6),
        (pixels, None, 5),
        (pixels, 6, None, None, 3),
        (pixels, None, None, 0.5),
        (pixels, None, None, np.float32(1.3), None, "cubic"),
        (pixels, np.array(7), np.array(9), None, None, "area"),
        (pixels[:, :, 0], 5, 5, None, None, "nearest"),
        (pixels[:, :, :1].astype(np.float32), 5, 5, None, None, "lanczos"),
    ]


OP = Op(
    name="image.resize",
    summary="Resizes to a height, a width or both, or by a factor, as cv2.resize does. With one "
    "side given the other keeps the aspect and is rounded up.",
    params=(
        IMAGE,
        Param("height", "The new height.", has_default=True),
        Param("width", "The new width.", has_default=True),
        Param("scale", "A factor for both sides, instead of sizes.", has_default=True),
        Param(
            "max_width", "Squeeze the width that follows from `height` to this.", has_default=True
        ),
        INTERPOLATION,
    ),
    results=("image",),
    types=types,
    reference=reference,
    example="small = image.resize(page, height = 48)",
    samples=samples,
)
