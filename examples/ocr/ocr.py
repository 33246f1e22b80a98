"""What is special about reading a page: its working size, where its lines are, how wide to read.

Pixels are BGR. The *page* is the photo at its working size; a box is four corners (x, y) on it,
clockwise from the top left. All rounding follows the recipe that the models are published with
(rapidocr-onnxruntime 1.4.4), because a line whose box moves by a pixel can read differently.
"""

import io
import math
from collections.abc import Sequence
from typing import TypeAlias

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from pyclipper import (  # pyright: ignore[reportMissingTypeStubs]
    ET_CLOSEDPOLYGON,  # pyright: ignore[reportAttributeAccessIssue] # a C extension without stubs
    JT_ROUND,  # pyright: ignore[reportAttributeAccessIssue] likewise
    PyclipperOffset,  # pyright: ignore[reportAttributeAccessIssue] likewise
)

Pixels: TypeAlias = MatLike  # u8[height, width, 3]
Floats: TypeAlias = NDArray[np.float32]
Corners: TypeAlias = list[list[float]]

LONGEST_SIDE = 2000  # of a page, before it is padded
SHORTEST_SIDE = 30
WIDEST = 8  # width over height from which a page is padded
DETECTOR_SIDE = 736  # the shorter side of what the detector sees, at least
STRIDE = 32  # working sizes are multiples of it

HEAT = np.float32(0.3)  # what is hotter is text
SCORE = 0.5  # mean heat of a box, at least
GROWTH = 1.6  # a box grows by its area over its length, times this
MOST_BOXES = 1000
THINNEST, THINNEST_GROWN = 3, 5  # pixels of heat
NEIGHBOURS = np.ones((2, 2), np.uint8)
SMALLEST = 4  # pixels of page, either side of a box
SAME_ROW = 10  # pixels of page within which boxes are read from left to right

HEIGHT = 48  # of a strip
NARROWEST = 320  # width of a strip to read, at least
CHUNK = 6  # strips that share one width


def open_page(photo: bytes) -> tuple[Pixels, Pixels, Floats]:
    """Return the page, the detector's view of it, and its frame.

    The frame is: page width and height, rows of padding on top, photo over page width and
    height, photo width and height.
    """
    image = _decode(photo)
    page, stretch = image, (1.0, 1.0)
    if max(page.shape[:2]) > LONGEST_SIDE:
        page, stretch = _resize(page, LONGEST_SIDE / max(page.shape[:2]))
    if min(page.shape[:2]) < SHORTEST_SIDE:  # a second resizing forgets the first one's stretch
        page, stretch = _resize(page, SHORTEST_SIDE / min(page.shape[:2]))
    height, width = page.shape[:2]
    top = 0
    if height <= SHORTEST_SIDE or width / height > WIDEST:
        top = abs(max(width // WIDEST, SHORTEST_SIDE) * 2 - height) // 2
        page = cv2.copyMakeBorder(page, top, top, 0, 0, cv2.BORDER_CONSTANT, value=(0, 0, 0))
    shorter = min(page.shape[:2])
    view, _ = _resize(page, DETECTOR_SIDE / shorter if shorter < DETECTOR_SIDE else 1.0)
    frame = (page.shape[1], page.shape[0], top, *stretch, image.shape[1], image.shape[0])
    return page, view, np.array(frame, np.float32)


def find_lines(heat: Floats, frame: Floats) -> tuple[Floats, Floats]:
    """Return the boxes of text in reading order, on the page and on the photo."""
    page, (top, *stretch), photo = frame[:2], frame[2:5], frame[5:]
    found = _hot_boxes(heat[0])
    if not found:
        nothing = np.empty((0, 4, 2), np.float32)
        return nothing, nothing
    size = np.array(heat.shape[:0:-1], np.float32)
    scaled = np.clip(np.round(np.array(found, np.float32) / size * page), 0, page)
    boxes = np.clip(_clockwise(scaled.astype(np.int32)), 0, page - 1).astype(np.float32)
    sides = boxes[:, [1, 3]] - boxes[:, :1]
    boxes = boxes[(np.sqrt((sides * sides).sum(axis=2)) >= SMALLEST).all(axis=1)]
    boxes = boxes[_reading_order(boxes[:, 0].tolist())]
    origin = np.array((0, top), np.float32)
    return boxes, np.clip((boxes - origin) * np.array(stretch, np.float32), 0, photo)


def own_width(crop: Pixels) -> np.int64:
    """Return the width at which a crop is read when nothing else is to share it."""
    return np.int64(_strip_width(crop.shape[1] / crop.shape[0]))


def chunk_widths(crops: Sequence[Pixels]) -> NDArray[np.int64]:
    """Return the width at which each crop is read when they are read in chunks of like shape.

    The widest of a chunk decides. Equal shapes are ordered as NumPy's default sort leaves them,
    which is not stable: it decides who shares a chunk.
    """
    shapes = np.array([crop.shape[1] / crop.shape[0] for crop in crops])
    order = np.argsort(shapes)
    widths = np.empty(len(crops), np.int64)
    for start in range(0, len(crops), CHUNK):
        chunk = order[start : start + CHUNK]
        widths[chunk] = _strip_width(float(shapes[chunk[-1]]))
    return widths


def strip(crop: Pixels, wide: int) -> tuple[Pixels, NDArray[np.bool_]]:
    """Scale a crop to the height of a strip, squeeze it if it is wider than `wide`, pad if not.

    Returns the strip and, for every column, whether it holds any of the crop.
    """
    height, breadth = crop.shape[:2]
    width = int(wide)
    filled = min(width, math.ceil(HEIGHT * (breadth / height)))
    strip = np.full((HEIGHT, width, 3), 255, np.uint8)
    strip[:, :filled] = cv2.resize(crop, (filled, HEIGHT))
    ink = np.zeros(width, np.bool_)
    ink[:filled] = True
    return strip, ink


def _decode(photo: bytes) -> Pixels:
    """Decode an image file as the package does; what is transparent becomes plain."""
    try:
        image = Image.open(io.BytesIO(photo))
    except UnidentifiedImageError as error:
        raise ValueError("the photo is not an image of a known format") from error
    pixels = np.asarray(image.convert("L") if image.mode == "1" else image)
    if pixels.dtype != np.uint8:
        raise ValueError(f"an image of mode {image.mode} has no 8-bit channels")
    if pixels.ndim == 2:
        return cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR)
    if pixels.shape[2] == 3:
        return cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    *color, alpha = cv2.split(pixels)
    opaque = cv2.merge(color[::-1] if len(color) == 3 else color * 3)
    opaque = cv2.bitwise_and(opaque, opaque, mask=alpha)
    if len(color) == 3 and opaque.any():
        return cv2.bitwise_not(opaque)
    return cv2.add(opaque, cv2.merge([cv2.bitwise_not(alpha)] * 3))


def _resize(image: Pixels, ratio: float) -> tuple[Pixels, tuple[float, float]]:
    """Scale to about `ratio`, sides multiples of the stride; also return old over new sides."""
    height, width = image.shape[:2]
    new_height = round(int(height * ratio) / STRIDE) * STRIDE
    new_width = round(int(width * ratio) / STRIDE) * STRIDE
    if not (new_height and new_width):
        raise ValueError(f"a photo of {width} x {height} pixels is too thin to read")
    return cv2.resize(image, (new_width, new_height)), (width / new_width, height / new_height)


def _hot_boxes(heat: Floats) -> list[Corners]:
    """Return the rectangles around hot spots, grown to the whole letters, in pixels of heat."""
    hot = cv2.dilate((heat > HEAT).view(np.uint8), NEIGHBOURS)
    outlines, _ = cv2.findContours(hot, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    boxes: list[Corners] = []
    for outline in outlines[:MOST_BOXES]:
        core, thickness = _rectangle(outline)
        if thickness < THINNEST or _mean_heat(heat, core) < SCORE:
            continue
        box, thickness = _rectangle(_grow(core))
        if thickness >= THINNEST_GROWN:
            boxes.append(box)
    return boxes


def _rectangle(points: MatLike) -> tuple[Corners, float]:
    """Return the smallest rectangle around points, from its upper left, and its thinner side."""
    rectangle = cv2.minAreaRect(points)
    corners: Corners = sorted(cv2.boxPoints(rectangle).tolist(), key=lambda corner: corner[0])
    left, right = corners[:2], corners[2:]
    if left[1][1] <= left[0][1]:
        left.reverse()
    if right[1][1] <= right[0][1]:
        right.reverse()
    return [left[0], right[0], right[1], left[1]], min(rectangle[1])


def _mean_heat(heat: Floats, corners: Corners) -> float:
    """Return the mean inside a rectangle, with its corners rounded towards the upper left."""
    bottom, right = heat.shape[0] - 1, heat.shape[1] - 1
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    x0, x1 = (min(max(x, 0), right) for x in (math.floor(min(xs)), math.ceil(max(xs))))
    y0, y1 = (min(max(y, 0), bottom) for y in (math.floor(min(ys)), math.ceil(max(ys))))
    mask = np.zeros((y1 - y0 + 1, x1 - x0 + 1), np.uint8)
    inside = np.array([(int(x - x0), int(y - y0)) for x, y in corners], np.int32)
    cv2.fillPoly(mask, [inside], (1,))
    return cv2.mean(heat[y0 : y1 + 1, x0 : x1 + 1], mask)[0]


def _grow(corners: Corners) -> NDArray[np.int32]:
    """Return the outline at a distance around a rectangle, with round corners."""
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = corners
    # The order of the sums decides the last bit, and that one now and then decides a pixel.
    area = abs(((bx - ax) * (ay - cy) + (cx - ax) * (by - dy) + (dx - ax) * (cy - ay)) / 2)
    steps = ((bx - ax, by - ay), (cx - bx, cy - by), (dx - cx, dy - cy), (ax - dx, ay - dy))
    length = sum(math.sqrt(x * x + y * y) for x, y in steps)
    offset = PyclipperOffset()
    offset.AddPath(corners, JT_ROUND, ET_CLOSEDPOLYGON)
    outlines: list[Corners] = offset.Execute(area * GROWTH / length)
    return np.array([point for outline in outlines for point in outline], np.int32)


def _clockwise(boxes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Order the corners of every box: upper left, upper right, lower right, lower left."""
    by_x = np.take_along_axis(boxes, np.argsort(boxes[:, :, :1], axis=1), axis=1)
    left, right = (
        np.take_along_axis(pair, np.argsort(pair[:, :, 1:], axis=1), axis=1)
        for pair in (by_x[:, :2], by_x[:, 2:])
    )
    return np.stack([left[:, 0], right[:, 0], right[:, 1], left[:, 1]], axis=1)


def _reading_order(tops: list[list[float]]) -> list[int]:
    """Order upper left corners from the top, and from the left within a row.

    One pass of insertion on what is sorted by height: a row that climbs may keep its order.
    """
    order = sorted(range(len(tops)), key=lambda box: (tops[box][1], tops[box][0]))
    for place in range(1, len(order)):
        for here in range(place, 0, -1):
            above, below = tops[order[here - 1]], tops[order[here]]
            if below[1] - above[1] >= SAME_ROW or below[0] >= above[0]:
                break
            order[here - 1], order[here] = order[here], order[here - 1]
    return order


def _strip_width(shape: float) -> int:
    """Return the width of a strip for a crop of the given width over height."""
    return int(HEIGHT * max(NARROWEST / HEIGHT, shape))
