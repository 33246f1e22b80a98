"""Drawing on an image what was found in it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DType, TensorType, Type
from ..constants import constant_integer, constant_integers
from ..images import FORM, LARGEST_SIDE, nonempty
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..opencv import opencv
from ..rules import of_dtype, ranked, same_size
from ..values import array, integers

IMAGE = Param("image", "An image [h, w] or [h, w, c] of u8.")
COLOUR = Param(
    "colour",
    "One number, or one a channel.",
    constant=True,
    has_default=True,
    default=255,
)
THICKNESS = Param("thickness", "Pixels across the line.", True, has_default=True, default=2)
THICKEST = 255


def drawn_on(argument: Argument, colour: Argument, dims: Dims) -> TensorType:
    found = ranked(of_dtype(argument, "image", dims, DType.U8), "image", 2, 3, form=FORM)
    channels = dims.resolve(found.dims[2]) if len(found.dims) == 3 else 1
    if isinstance(channels, int) and not 1 <= channels <= 4:
        raise OpTypeError("image", f"1 to 4 channels, not {found}")
    values = constant_integers(colour, "colour")
    if len(values) > 1 and channels != len(values):
        raise OpTypeError("colour", f"one number, or one for each channel of {found}")
    if not values or not all(0 <= value <= 255 for value in values):
        raise OpTypeError("colour", f"numbers from 0 to 255, not {list(values)}")
    return found


def line_thickness(argument: Argument) -> None:
    thickness = constant_integer(argument, "thickness")
    if not 1 <= thickness <= THICKEST:
        raise OpTypeError("thickness", f"1 to {THICKEST}, not {thickness}")


def figures(argument: Argument, name: str, shape: tuple[int, ...], dims: Dims) -> Dim:
    """Require f32 coordinates of any number of figures and return that number."""
    form = f"f32[N, {', '.join(map(str, shape))}]"
    found = ranked(of_dtype(argument, name, dims, DType.F32), name, 1 + len(shape), form=form)
    for dim, size in zip(found.dims[1:], shape, strict=True):
        same_size(dim, size, name, f"{form}, not {found}", dims)
    return found.dims[0]


def quads_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = drawn_on(arguments[0], arguments[2], dims)
    figures(arguments[1], "quads", (4, 2), dims)
    line_thickness(arguments[3])
    return (found,)


def boxes_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = drawn_on(arguments[0], arguments[2], dims)
    figures(arguments[1], "boxes", (4,), dims)
    line_thickness(arguments[3])
    return (found,)


def labels_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    image, texts, points, colour, size, thickness = arguments
    found = drawn_on(image, colour, dims)
    words = ranked(of_dtype(texts, "texts", dims, DType.STRING), "texts", 1, form="string[N]")
    count = figures(points, "points", (2,), dims)
    same_size(words.dims[0], count, "points", "one point a text", dims)
    if not 1 <= constant_integer(size, "size") <= 1000:
        raise OpTypeError("size", f"1 to 1000, not {size.literal!r}")
    line_thickness(thickness)
    return (found,)


def copied(image: Item, colour: Literal) -> tuple[Any, tuple[int, ...]]:  # Any: see opencv
    """Return a copy to draw on and the colour of all its channels."""
    pixels = nonempty(image).copy()
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    values = integers(colour)
    return pixels, values if len(values) > 1 else values * channels


def points_of(values: Item, per_figure: int) -> Array:
    """Return corners as whole pixels, [n, corners, 2]; far beyond the image they are cut."""
    corners = np.asarray(array(values), np.float64)
    if not np.all(np.isfinite(corners)):
        raise ValueError("a corner is NaN or infinite")
    cut = np.clip(np.round(corners), -LARGEST_SIDE, LARGEST_SIDE)
    return cut.astype(np.int32).reshape(len(corners), per_figure, 2)


def quads(image: Item, quads: Item, colour: Literal, thickness: int) -> Array:
    pixels, values = copied(image, colour)
    corners = list(points_of(quads, 4))
    if corners:
        opencv().polylines(pixels, corners, True, values, thickness)
    return pixels


def boxes(image: Item, boxes: Item, colour: Literal, thickness: int) -> Array:
    cv2 = opencv()
    pixels, values = copied(image, colour)
    for first, last in points_of(boxes, 2).tolist():
        cv2.rectangle(pixels, first, last, values, thickness)
    return pixels


def labels(
    image: Item, texts: Item, points: Item, colour: Literal, size: int, thickness: int
) -> Array:
    cv2 = opencv()
    pixels, values = copied(image, colour)
    font = cv2.FONT_HERSHEY_SIMPLEX
    scale = cv2.getFontScaleFromHeight(font, size)
    words = texts if isinstance(texts, list) else array(texts).tolist()
    for word, (point,) in zip(words, points_of(points, 1).tolist(), strict=True):
        printable = "".join(one if " " <= one <= "~" else "?" for one in str(word))
        cv2.putText(pixels, printable, point, font, scale, values, thickness, cv2.LINE_AA)
    return pixels


def drawing(random: np.random.Generator) -> tuple[Array, Array]:
    pixels = random.integers(0, 256, (30, 40, 3)).astype(np.uint8)
    return pixels, random.uniform(-5, 45, (3, 4, 2)).astype(np.float32)


def quads_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels, corners = drawing(random)
    return [
        (pixels, corners),
        (pixels, corners[:0]),
        (pixels[:, :, 0], corners, 7, 1),
        (pixels[:, :, :1], corners, 7),
        (pixels, np.multiply(corners, 1e6, dtype=np.float32), (255, 0, 0), 3),
        (pixels, list(corners)),
    ]


def boxes_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels, corners = drawing(random)
    rects = corners[:, :2].reshape(3, 4)
    return [(pixels, rects), (pixels, rects[:0], (1, 2, 3)), (pixels[:, :, 0], rects, 7, 1)]


def labels_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels, corners = drawing(random)
    words = np.array(["EXIT", "Straße", ""], object)
    points = corners[:, 0]
    return [(pixels, words, points), (pixels[:, :, 0], words[:0], points[:0], 9, 8, 2)]


OPS = (
    Op(
        name="image.draw_quads",
        summary="Draws the outlines of quadrilaterals on a copy of an image.",
        params=(IMAGE, Param("quads", "Corners, f32[N, 4, 2]."), COLOUR, THICKNESS),
        results=("image",),
        types=quads_types,
        reference=quads,
        example="shown = image.draw_quads(page, boxes, colour = [255, 0, 0])",
        samples=quads_samples,
    ),
    Op(
        name="image.draw_boxes",
        summary="Draws the outlines of upright rectangles on a copy of an image.",
        params=(
            IMAGE,
            Param("boxes", "Two opposite corners x, y, x, y each, f32[N, 4]."),
            COLOUR,
            THICKNESS,
        ),
        results=("image",),
        types=boxes_types,
        reference=boxes,
        example="shown = image.draw_boxes(page, rects, colour = [0, 255, 0])",
        samples=boxes_samples,
    ),
    Op(
        name="image.draw_labels",
        summary="Writes texts on a copy of an image, in OpenCV's own font, which is of ASCII: "
        "other characters are drawn as question marks.",
        params=(
            IMAGE,
            Param("texts", "What to write, string[N]."),
            Param("points", "The lower left corner of each text, f32[N, 2]."),
            COLOUR,
            Param("size", "The height of a letter in pixels.", True, True, default=12),
            Param("thickness", "Pixels across a stroke.", True, has_default=True, default=1),
        ),
        results=("image",),
        types=labels_types,
        reference=labels,
        example="shown = image.draw_labels(page, words, corners)",
        samples=labels_samples,
    ),
)
