"""Channels first, as networks want them, or last, as images have them."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import TensorType, Type
from ..images import any_image_type
from ..lowering import MOVABLE, require, tensor_type, unsqueeze
from ..op import Argument, Array, Emitter, Item, Op, Operand, Param, Sample
from ..opencv import opencv
from ..rules import ranked, tensor
from ..values import array

SPLIT_BY_OPENCV = (np.dtype(np.uint8), np.dtype(np.float32))


def chw_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = any_image_type(arguments[0], dims)
    return (TensorType(found.dtype, (*(found.dims[2:] or (1,)), *found.dims[:2])),)


def to_chw(image: Item) -> Array:
    pixels = array(image)
    if pixels.ndim == 2:
        return pixels[None]
    height, width, channels = pixels.shape
    if pixels.dtype in SPLIT_BY_OPENCV and pixels.size and channels <= 4:
        # Many times faster than NumPy's strided copy.
        planes = np.empty((channels, height, width), pixels.dtype)
        opencv().split(np.ascontiguousarray(pixels), list(planes))
        return planes
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def lower_chw(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    require(found.dtype, MOVABLE, "Transpose")
    x = emit.tensor(operands[0])
    if len(found.dims) == 2:
        return (unsqueeze(emit, x, [emit.axis(0, 3)]),)
    return emit.node("Transpose", [x], perm=[0, 3, 1, 2] if emit.batched else [2, 0, 1])


def hwc_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = ranked(tensor(arguments[0], "x", dims), "x", 3, form="[c, h, w]")
    channels, height, width = found.dims
    return (TensorType(found.dtype, (height, width, channels)),)


def to_hwc(x: Item) -> Array:
    return np.ascontiguousarray(array(x).transpose(1, 2, 0))


def lower_hwc(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    require(tensor_type(operands[0].type).dtype, MOVABLE, "Transpose")
    order = [0, 2, 3, 1] if emit.batched else [1, 2, 0]
    return emit.node("Transpose", [emit.tensor(operands[0])], perm=order)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (6, 5, 3)).astype(np.uint8)
    return [(pixels,), (pixels.astype(np.float32),), (pixels[:, :, 0],)]


def hwc_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (3, 6, 5)).astype(np.float32)
    return [(x,), (x[:1] > 0,)]


OPS = (
    Op(
        name="image.to_chw",
        summary="Puts the channels first: [h, w, c] becomes [c, h, w], [h, w] becomes [1, h, w].",
        params=(Param("image", "An image [h, w] or [h, w, c]."),),
        results=("x",),
        types=chw_types,
        reference=to_chw,
        lowering=lower_chw,
        example="x = image.to_chw(image.normalize(page))",
        samples=samples,
    ),
    Op(
        name="image.to_hwc",
        summary="Puts the channels last: [c, h, w] becomes [h, w, c].",
        params=(Param("x", "A tensor [c, h, w]."),),
        results=("image",),
        types=hwc_types,
        reference=to_hwc,
        lowering=lower_hwc,
        example="img = image.to_hwc(x)",
        samples=hwc_samples,
    ),
)
