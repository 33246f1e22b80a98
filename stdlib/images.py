"""Images as the image ops see them: [h, w] or [h, w, c] of u8 or f32; sizes and rounding.

OpenCV drops a channel axis of size 1; `same_channels` puts it back.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any, Final

import numpy as np

from ..dsl.dims import Dims
from ..dsl.types import Dim, DType, TensorType
from .op import Argument, Array, Item, Literal, OpTypeError, Param
from .rules import (
    of_dtype,
    ranked,
    scalar_integer,
    size_or_fresh,
    tensor,
)
from .values import array, integer

FORM: Final = "an image [h, w] or [h, w, c]"
IMAGE: Final = Param("image", "An image [h, w] or [h, w, c] of u8 or f32.")
INTERPOLATIONS: Final = ("nearest", "linear", "cubic", "area", "lanczos")
INTERPOLATION: Final = Param(
    "interpolation",
    "How new pixels are made of old ones: nearest, linear, cubic, area or lanczos.",
    constant=True,
    has_default=True,
    default="linear",
)
LARGEST_SIDE: Final = 32766
"""OpenCV's warps count pixels of a side in 16 bits."""


def interpolation_flag(cv2: Any, name: str) -> int:  # Any: see opencv
    """Return OpenCV's number of an interpolation."""
    return getattr(cv2, "INTER_LANCZOS4" if name == "lanczos" else f"INTER_{name.upper()}")


def image_type(argument: Argument, dims: Dims, name: str = "image") -> TensorType:
    """Return the type of an image of u8 or f32, which is not known to be without pixels."""
    found = of_dtype(argument, name, dims, DType.U8, DType.F32)
    ranked(found, name, 2, 3, form=FORM)
    if any(dims.resolve(dim) == 0 for dim in found.dims):
        raise OpTypeError(name, f"an image with pixels, not {found}")
    return found


def any_image_type(argument: Argument, dims: Dims, name: str = "image") -> TensorType:
    """Return the type of an image of any numbers."""
    return ranked(tensor(argument, name, dims), name, 2, 3, form=FORM)


def resized(found: TensorType, height: Dim, width: Dim) -> TensorType:
    """Return the type of an image with other sides."""
    return TensorType(found.dtype, (height, width, *found.dims[2:]))


def sides(found: TensorType, dims: Dims) -> tuple[int, int] | None:
    """Return height and width when both are known."""
    height, width = (dims.resolve(dim) for dim in found.dims[:2])
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def optional_size(argument: Argument, name: str, fresh: str, dims: Dims) -> Dim | None:
    """Return a size that may be left out (None): literal, or fresh when made at run time."""
    if is_absent(argument):
        return None
    return size_or_fresh(argument, name, fresh, dims)


def optional_integer(argument: Argument, name: str, dims: Dims) -> int | None:
    """Check an integer that may be left out; return it when it is known."""
    return None if is_absent(argument) else scalar_integer(argument, name, dims)


def is_absent(argument: Argument) -> bool:
    """Return whether an optional argument was left out."""
    return argument.known and argument.literal is None


def size_value(value: "Item | Literal", name: str) -> int | None:
    """Return a size given at run time, None if it was left out; it must be at least 1."""
    if value is None:
        return None
    size = integer(value)
    if size < 1:
        raise ValueError(f"`{name}` is {size}, but a size is at least 1")
    return size


def width_for(height: int, old_height: int, old_width: int) -> int:
    """Return the width, rounded up, that keeps an image's aspect at another height."""
    return max(1, ceil(height * (old_width / old_height)))


def nonempty(image: Item) -> Array:
    """Return an image as a contiguous array that OpenCV takes; it must have pixels."""
    pixels = np.ascontiguousarray(array(image))
    if pixels.size == 0:
        raise ValueError(f"an image of shape {list(pixels.shape)} has no pixels")
    return pixels


def same_channels(result: Array, like: Array) -> Array:
    """Return OpenCV's result with the channel axis that the image it was made from has."""
    return result[:, :, None] if like.ndim == 3 and result.ndim == 2 else result


def fill_value(value: "Item | Literal", pixels: Array, name: str = "value") -> Array:
    """Return a fill value, one for all channels or one for each, in the image's dtype."""
    fill = np.asarray(array(value), np.float64)
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if fill.size not in (1, channels):
        raise ValueError(f"`{name}` has {fill.size} values for {channels} channels")
    if pixels.dtype == np.uint8 and not np.all((fill >= 0) & (fill <= 255)):
        raise ValueError(f"`{name}` is {fill.tolist()}, but a u8 pixel is 0 to 255")
    return fill.astype(pixels.dtype)


def padded(
    pixels: Array, around: Sequence[tuple[int, int]], value: "Item | Literal", name: str = "value"
) -> Array:
    """Return an image with `around` = ((top, bottom), (left, right)) pixels of a value added."""
    (top, bottom), (left, right) = around
    fill = fill_value(value, pixels, name)
    if top == bottom == left == right == 0:
        return pixels
    height, width = pixels.shape[:2]
    result = np.empty(
        (top + height + bottom, left + width + right, *pixels.shape[2:]), pixels.dtype
    )
    result[:top] = fill
    result[top + height :] = fill
    result[top : top + height, :left] = fill
    result[top : top + height, left + width :] = fill
    result[top : top + height, left : left + width] = pixels
    return result


def fill_type(argument: Argument, found: TensorType, dims: Dims, name: str = "value") -> None:
    """Require a fill value: one number, or one for each channel."""
    given = tensor(argument, name, dims)
    if not given.dtype.is_number or len(given.dims) > 1:
        raise OpTypeError(name, f"one number, or one for each channel, not {given}")
    if argument.known and found.dtype is DType.U8:
        values = np.asarray(array(argument.literal), np.float64)
        if not np.all((values >= 0) & (values <= 255)):
            raise OpTypeError(name, f"a pixel of u8, 0 to 255, not {argument.literal!r}")
    if given.dims and (len(found.dims) != 3 or not dims.unify(given.dims[0], found.dims[2])):
        raise OpTypeError(name, f"one number for each channel of {found}, not {given}")
