"""Turning by right angles and mirroring."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import TensorType, Type
from ..constants import constant_choice
from ..images import IMAGE, image_type, nonempty, same_channels
from ..lowering import MOVABLE, flip, require, tensor_type
from ..op import Argument, Array, Emitter, Item, Lowering, Op, Operand, Param, Reference, Sample
from ..opencv import opencv

DIRECTIONS = ("horizontal", "vertical")


def same_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    return (image_type(arguments[0], dims),)


def turned_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = image_type(arguments[0], dims)
    height, width, *channels = found.dims
    return (TensorType(found.dtype, (width, height, *channels)),)


def flip_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    constant_choice(arguments[1], "direction", DIRECTIONS)
    return same_types(arguments, dims)


def turned(rotation: str) -> Reference:
    """Make the reference of a turn by one of OpenCV's rotation codes."""

    def reference(image: Item) -> Array:
        cv2 = opencv()
        pixels = nonempty(image)
        return same_channels(cv2.rotate(pixels, getattr(cv2, rotation)), pixels)

    return reference


def mirror(image: Item, direction: str) -> Array:
    pixels = nonempty(image)
    return same_channels(opencv().flip(pixels, 1 if direction == "horizontal" else 0), pixels)


def lower_flips(axes: tuple[int, ...], transposed: bool = False) -> Lowering:
    """Make the lowering that swaps height and width if `transposed`, then reverses axes."""

    def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
        found = tensor_type(operands[0].type)
        require(found.dtype, MOVABLE, "Slice")
        rank = len(found.dims)
        x = emit.tensor(operands[0])
        if transposed:
            batch = [0] if emit.batched else []
            order = [emit.axis(axis, rank) for axis in (1, 0, 2)[:rank]]
            (x,) = emit.node("Transpose", [x], perm=[*batch, *order])
        return (flip(emit, x, [emit.axis(axis, rank) for axis in axes]),)

    return lower


def lower_mirror(
    emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
) -> tuple[str, ...]:
    axis = 1 if operands[1].literal == "horizontal" else 0
    return lower_flips((axis,))(emit, operands, results)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (4, 5, 3)).astype(np.uint8)
    return [(pixels,), (pixels[:, :, 0],), (pixels.astype(np.float32),)]


def flip_samples(random: np.random.Generator) -> Sequence[Sample]:
    return [(*sample, direction) for sample in samples(random) for direction in DIRECTIONS]


OPS = (
    Op(
        name="image.rotate90",
        summary="Turns by 90 degrees clockwise.",
        params=(IMAGE,),
        results=("image",),
        types=turned_types,
        reference=turned("ROTATE_90_CLOCKWISE"),
        lowering=lower_flips((1,), transposed=True),
        example="upright = image.rotate90(crop)",
        samples=samples,
    ),
    Op(
        name="image.rotate180",
        summary="Turns upside down.",
        params=(IMAGE,),
        results=("image",),
        types=same_types,
        reference=turned("ROTATE_180"),
        lowering=lower_flips((0, 1)),
        example="upright = image.rotate180(crop)",
        samples=samples,
    ),
    Op(
        name="image.rotate270",
        summary="Turns by 90 degrees counterclockwise.",
        params=(IMAGE,),
        results=("image",),
        types=turned_types,
        reference=turned("ROTATE_90_COUNTERCLOCKWISE"),
        lowering=lower_flips((0,), transposed=True),
        example="upright = image.rotate270(crop)",
        samples=samples,
    ),
    Op(
        name="image.flip",
        summary="Mirrors: left and right, or top and bottom change places.",
        params=(
            IMAGE,
            Param(
                "direction",
                '"horizontal" (left and right) or "vertical".',
                constant=True,
                has_default=True,
                default="horizontal",
            ),
        ),
        results=("image",),
        types=flip_types,
        reference=mirror,
        lowering=lower_mirror,
        example='mirrored = image.flip(img, "horizontal")',
        samples=flip_samples,
    ),
)
