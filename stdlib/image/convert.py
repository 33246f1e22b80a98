"""Colours in another colour space."""

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, TensorType, Type
from ..constants import constant_choice
from ..images import image_type, nonempty
from ..op import Argument, Array, Item, Op, OpTypeError, Param, Sample
from ..opencv import opencv
from ..rules import same_size

SPACES = ("rgb", "bgr", "gray", "hsv", "lab", "ycrcb")
DIRECT = ("rgb", "bgr")
"""The spaces that OpenCV converts all others from and to."""


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = image_type(arguments[0], dims)
    old = constant_choice(arguments[1], "old", SPACES)
    new = constant_choice(arguments[2], "new", SPACES)
    wanted = 1 if old == "gray" else 3
    channels: Dim = found.dims[2] if len(found.dims) == 3 else 1
    same_size(channels, wanted, "image", f"of {wanted} channels for {old}, not {found}", dims)
    if old == new:
        raise OpTypeError("new", f"another space than {old}")
    inner = () if new == "gray" else (3,)
    return (TensorType(found.dtype, (*found.dims[:2], *inner)),)


def reference(image: Item, old: str, new: str) -> Array:
    cv2 = opencv()
    pixels = nonempty(image)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if old not in DIRECT and new not in DIRECT:
        pixels, old = reference(pixels, old, "rgb"), "rgb"
    shown = {"lab": "Lab", "ycrcb": "YCrCb"}
    names = (shown.get(old, old.upper()), shown.get(new, new.upper()))
    return cv2.cvtColor(pixels, getattr(cv2, f"COLOR_{names[0]}2{names[1]}"))


def samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (4, 5, 3)).astype(np.uint8)
    pairs = list(permutations(SPACES, 2))
    from_three = [(pixels, old, new) for old, new in pairs if old != "gray"]
    from_one = [(pixels[:, :, 0], old, new) for old, new in pairs if old == "gray"]
    scaled = (pixels / 255).astype(np.float32)
    return [*from_three, *from_one, (pixels[:, :, :1], "gray", "rgb"), (scaled, "rgb", "hsv")]


OP = Op(
    name="image.convert",
    summary="Converts between the colour spaces rgb, bgr, gray, hsv, lab and ycrcb, with the "
    "ranges that OpenCV gives them: hsv of u8 has hues 0 to 179, of f32 (pixels 0 to 1) 0 to 360. "
    "gray has no channel axis when it is made.",
    params=(
        Param("image", "An image [h, w, 3], or [h, w] or [h, w, 1] of gray, of u8 or f32."),
        Param("old", "The space that it is in.", constant=True),
        Param("new", "The space wanted.", constant=True),
    ),
    results=("image",),
    types=types,
    reference=reference,
    example='hsv = image.convert(img, "rgb", "hsv")',
    samples=samples,
)
