"""Parts of one size: a large image in tiles, and the middle of any."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_integer
from ..images import any_image_type, resized
from ..lowering import MOVABLE, integers, require, tensor_type
from ..op import Argument, Array, Decline, Emitter, Item, Op, Operand, OpTypeError, Param, Sample
from ..rules import size_or_fresh
from ..values import array, integer

IMAGE = Param("image", "An image [h, w] or [h, w, c].")


def tiles_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = any_image_type(arguments[0], dims)
    size = constant_integer(arguments[1], "size")
    overlap = constant_integer(arguments[2], "overlap")
    if size < 1:
        raise OpTypeError("size", f"at least 1, not {size}")
    if not 0 <= overlap < size:
        raise OpTypeError("overlap", f"0 to {size - 1}, less than the size, not {overlap}")
    for dim in found.dims[:2]:
        side = dims.resolve(dim)
        if isinstance(side, int) and side < size:
            raise OpTypeError("image", f"sides of at least {size} pixels, not {found}")
    count = dims.fresh("n")
    return (
        TensorType(found.dtype, (count, size, size, *found.dims[2:])),
        TensorType(DType.I64, (count, 2)),
    )


def tiles(image: Item, size: int, overlap: int) -> tuple[Array, Array]:
    pixels = array(image)
    side, step = integer(size), integer(size) - integer(overlap)
    if min(pixels.shape[:2]) < side:
        raise ValueError(f"an image of {pixels.shape[0]} x {pixels.shape[1]} has no tile of {side}")
    rows, columns = (starts(whole, side, step) for whole in pixels.shape[:2])
    corners = [(x, y) for y in rows for x in columns]
    parts = np.stack([pixels[y : y + side, x : x + side] for x, y in corners])
    return parts, np.array(corners, np.int64)


def starts(whole: int, side: int, step: int) -> list[int]:
    """Return where tiles begin; the last ends with the image, whatever it shares."""
    return [*range(0, whole - side, step), whole - side]


def center_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = any_image_type(arguments[0], dims)
    sizes = [
        size_or_fresh(argument, name, name[0], dims)
        for argument, name in zip(arguments[1:], ("height", "width"), strict=True)
    ]
    for dim, size, name in zip(found.dims, sizes, ("height", "width"), strict=False):
        side = dims.resolve(dim)
        if isinstance(side, int) and isinstance(size, int) and size > side:
            raise OpTypeError(name, f"at most {side}, as {found} has, not {size}")
    return (resized(found, *sizes),)


def center(image: Item, height: Item, width: Item) -> Array:
    pixels = array(image)
    rows, columns = integer(height), integer(width)
    if not (1 <= rows <= pixels.shape[0] and 1 <= columns <= pixels.shape[1]):
        raise ValueError(
            f"an image of {pixels.shape[0]} x {pixels.shape[1]} has no middle of {rows} x {columns}"
        )
    top, left = (pixels.shape[0] - rows) // 2, (pixels.shape[1] - columns) // 2
    return np.ascontiguousarray(pixels[top : top + rows, left : left + columns])


def lower_center(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    image, *sizes = operands
    found = tensor_type(image.type)
    require(found.dtype, MOVABLE, "Slice")
    first: list[int] = []
    last: list[int] = []
    for dim, size in zip(found.dims, sizes, strict=False):
        if size.tensor is not None or not isinstance(dim, int):
            raise Decline("where the middle begins is not known when compiling")
        first.append((dim - integer(size.literal)) // 2)
        last.append(first[-1] + integer(size.literal))
    axes = [emit.axis(axis, len(found.dims)) for axis in (0, 1)]
    rows = [integers(emit, row) for row in (first, last, axes)]
    return emit.node("Slice", [emit.tensor(image), *rows])


def tiles_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (9, 12, 3)).astype(np.uint8)
    return [(pixels, 4), (pixels, 5, 2), (pixels[:, :, 0], 9, 8), (pixels[:4, :4], 4)]


def center_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (9, 12, 3)).astype(np.uint8)
    return [
        (pixels, 4, 5),
        (pixels[:, :, 0], 9, 12),
        (pixels[:4, :4], np.array(4), 3),
        (pixels[:3, :3], 2, 1),
    ]


OPS = (
    Op(
        name="image.tiles",
        summary="Cuts an image into square tiles that together cover it, row by row; the last of "
        "a row or column is moved back to end with the image. `corners` are their upper left "
        "pixels (x, y). An image smaller than a tile is an error: pad it first.",
        params=(
            IMAGE,
            Param("size", "The side of a tile in pixels.", constant=True),
            Param("overlap", "Pixels that neighbours share.", True, has_default=True, default=0),
        ),
        results=("tiles", "corners"),
        types=tiles_types,
        reference=tiles,
        example="parts, corners = image.tiles(page, 640, overlap = 64)",
        samples=tiles_samples,
    ),
    Op(
        name="image.center_crop",
        summary="Cuts out the middle; where it is not whole pixels, those up and left of it.",
        params=(IMAGE, Param("height", "How many rows."), Param("width", "How many columns.")),
        results=("image",),
        types=center_types,
        reference=center,
        lowering=lower_center,
        example="middle = image.center_crop(img, 224, 224)",
        samples=center_samples,
    ),
)
