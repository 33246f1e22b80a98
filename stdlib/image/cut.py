"""Cutting a part out: an upright rectangle, or any quadrilateral straightened."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DType, Type
from ..images import (
    IMAGE,
    LARGEST_SIDE,
    any_image_type,
    image_type,
    nonempty,
    optional_size,
    resized,
    same_channels,
    size_value,
    width_for,
)
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..opencv import opencv
from ..rules import of_dtype, same_size, scalar_integer, size_or_fresh
from ..values import array, integer


def crop_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    image, top, left, height, width = arguments
    found = any_image_type(image, dims)
    sizes: list[Dim] = []
    for place, (start, size) in enumerate(((top, height), (left, width))):
        start_name, size_name = (("top", "height"), ("left", "width"))[place]
        first = scalar_integer(start, start_name, dims)
        if first is not None and first < 0:
            raise OpTypeError(start_name, f"at least 0, not {first}")
        count = size_or_fresh(size, size_name, size_name[0], dims)
        whole = dims.resolve(found.dims[place])
        end = first + count if isinstance(first, int) and isinstance(count, int) else None
        if end is not None and isinstance(whole, int) and end > whole:
            raise OpTypeError(size_name, f"an end within {whole} pixels, not {end}")
        sizes.append(count)
    return (resized(found, *sizes),)


def crop(
    image: Item,
    top: "Item | Literal",
    left: "Item | Literal",
    height: "Item | Literal",
    width: "Item | Literal",
) -> Array:
    pixels = array(image)
    y, x, rows, columns = (integer(one) for one in (top, left, height, width))
    if min(y, x) < 0 or min(rows, columns) < 1:
        raise ValueError(f"no rectangle: top {y}, left {x}, height {rows}, width {columns}")
    if y + rows > pixels.shape[0] or x + columns > pixels.shape[1]:
        raise ValueError(
            f"rows {y} to {y + rows}, columns {x} to {x + columns} reach beyond an image of "
            f"{pixels.shape[0]} x {pixels.shape[1]}"
        )
    return np.ascontiguousarray(pixels[y : y + rows, x : x + columns])


def warp_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    image, quad, height, width = arguments
    found = image_type(image, dims)
    corners = of_dtype(quad, "quad", dims, DType.F32)
    if len(corners.dims) != 2:
        raise OpTypeError("quad", f"f32[4, 2], not {corners}")
    for place, size in enumerate((4, 2)):
        same_size(corners.dims[place], size, "quad", f"f32[4, 2], not {corners}", dims)
    new_height = optional_size(height, "height", "h", dims)
    new_width = optional_size(width, "width", "w", dims)
    return (
        resized(
            found,
            dims.fresh("h") if new_height is None else new_height,
            dims.fresh("w") if new_width is None else new_width,
        ),
    )


def warp(image: Item, quad: Item, height: "Item | Literal", width: "Item | Literal") -> Array:
    cv2 = opencv()
    pixels = nonempty(image)
    corners = np.ascontiguousarray(array(quad), np.float32)
    if not np.all(np.isfinite(corners)):
        raise ValueError(f"the corners {corners.tolist()} are no points")
    new_height, new_width = warped_size(corners, height, width)
    if max(new_height, new_width) > LARGEST_SIDE:
        raise ValueError(f"a crop of {new_height} x {new_width} is beyond {LARGEST_SIDE} pixels")
    target = [[0, 0], [new_width, 0], [new_width, new_height], [0, new_height]]
    matrix = cv2.getPerspectiveTransform(corners, np.array(target, np.float32))
    straight = cv2.warpPerspective(
        pixels,
        matrix,
        (new_width, new_height),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return same_channels(straight, pixels)


def warped_size(
    corners: Array, height: "Item | Literal", width: "Item | Literal"
) -> tuple[int, int]:
    """Return the crop's height and width: as given, else from the longer of opposite sides."""
    points = np.asarray(corners, np.float32)

    def distance(one: int, other: int) -> float:
        return float(np.linalg.norm(points[one] - points[other]))

    natural_width = max(1, int(max(distance(0, 1), distance(2, 3))))
    natural_height = max(1, int(max(distance(0, 3), distance(1, 2))))
    new_height, new_width = size_value(height, "height"), size_value(width, "width")
    if new_height is not None and new_width is not None:
        return new_height, new_width
    if new_height is not None:
        return new_height, width_for(new_height, natural_height, natural_width)
    if new_width is not None:
        return width_for(new_width, natural_width, natural_height), new_width
    return natural_height, natural_width


def crop_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (12, 20, 3)).astype(np.uint8)
    return [
        (pixels, 2, 3, 4, 5),
        (pixels, np.array(2), 3, np.array(4), 5),
        (pixels[:, :, 0], 0, 0, 12, 20),
    ]


def warp_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (30, 40, 3)).astype(np.uint8)
    quad = np.array([[5, 4], [33, 7], [32, 20], [4, 17]], np.float32)
    outside = quad - np.float32(10)
    return [
        (pixels, quad),
        (pixels, quad, 48),
        (pixels, quad, None, 10),
        (pixels, quad, 8, np.array(30)),
        (pixels, outside),
        (pixels, quad * 0),
        (pixels[:, :, 0], quad, 16),
        (pixels[:, :, :1].astype(np.float32), quad, 16),
    ]


OPS = (
    Op(
        name="image.crop",
        summary="Cuts out an upright rectangle, which must lie within the image.",
        params=(
            Param("image", "An image [h, w] or [h, w, c]."),
            Param("top", "The first row."),
            Param("left", "The first column."),
            Param("height", "How many rows."),
            Param("width", "How many columns."),
        ),
        results=("image",),
        types=crop_types,
        reference=crop,
        example="part = image.crop(page, top = 0, left = 0, height = 64, width = 64)",
        samples=crop_samples,
    ),
    Op(
        name="image.warp",
        summary="Cuts out a quadrilateral and straightens it, by cv2.getPerspectiveTransform and "
        "a cubic cv2.warpPerspective; the border is repeated outside of the image. Without sizes "
        "each side is the longer of the two opposite ones; with one the aspect of those is kept, "
        "rounded up.",
        params=(
            IMAGE,
            Param("quad", "The corners, f32[4, 2], clockwise from the top left."),
            Param("height", "The height of the result.", has_default=True),
            Param("width", "The width of the result.", has_default=True),
        ),
        results=("image",),
        types=warp_types,
        reference=warp,
        example="crop = image.warp(img, box, height = 48)",
        samples=warp_samples,
    ),
)
