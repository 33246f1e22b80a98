"""Channels: grey from colours, and their order."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import TensorType, Type
from ..constants import constant_choice
from ..images import image_type, nonempty
from ..lowering import MOVABLE, flip, require, tensor_type
from ..op import Argument, Array, Emitter, Item, Op, Operand, Param, Sample
from ..opencv import opencv
from ..rules import ranked, same_size

FORM = "an image [h, w, 3]"
COLOURS = Param("image", "An image [h, w, 3] of u8 or f32.")
ORDERS = ("rgb", "bgr")


def grayscale_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = ranked(image_type(arguments[0], dims), "image", 3, form=FORM)
    same_size(found.dims[2], 3, "image", f"{FORM}, not {found}", dims)
    constant_choice(arguments[1], "colour", ORDERS)
    return (TensorType(found.dtype, found.dims[:2]),)


def grayscale(image: Item, colour: str) -> Array:
    cv2 = opencv()
    code = cv2.COLOR_RGB2GRAY if colour == "rgb" else cv2.COLOR_BGR2GRAY
    return cv2.cvtColor(nonempty(image), code)


def swap_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = ranked(image_type(arguments[0], dims), "image", 3, form=FORM)
    same_size(found.dims[2], 3, "image", f"{FORM}, not {found}", dims)
    return (found,)


def swap(image: Item) -> Array:
    cv2 = opencv()
    return cv2.cvtColor(nonempty(image), cv2.COLOR_BGR2RGB)


def lower_swap(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    require(tensor_type(operands[0].type).dtype, MOVABLE, "Slice")
    return (flip(emit, emit.tensor(operands[0]), [emit.axis(2, 3)]),)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (4, 5, 3)).astype(np.uint8)
    return [(pixels,), (pixels.astype(np.float32),)]


def grayscale_samples(random: np.random.Generator) -> Sequence[Sample]:
    return [(*sample, colour) for sample in samples(random) for colour in ORDERS]


OPS = (
    Op(
        name="image.grayscale",
        summary="Makes one channel of three, weighted as cv2.cvtColor does.",
        params=(
            COLOURS,
            Param(
                "colour", 'The order of the channels: "rgb" or "bgr".', True, True, default="rgb"
            ),
        ),
        results=("image",),
        types=grayscale_types,
        reference=grayscale,
        example="grey = image.grayscale(img)",
        samples=grayscale_samples,
    ),
    Op(
        name="image.swap_channels",
        summary="Reverses the order of the channels: RGB to BGR and back.",
        params=(COLOURS,),
        results=("image",),
        types=swap_types,
        reference=swap,
        lowering=lower_swap,
        example="bgr = image.swap_channels(img)",
        samples=samples,
    ),
)
