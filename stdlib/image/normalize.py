"""From pixels to the numbers that a network was trained on."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..dtypes import to_onnx
from ..images import any_image_type
from ..lowering import require, tensor_type
from ..op import Argument, Array, Emitter, Item, Literal, Op, Operand, OpTypeError, Param, Sample
from ..values import array

SCALE = 1 / 255
PIXELS = frozenset({DType.U8, DType.U16, DType.F32})


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = any_image_type(arguments[0], dims)
    if found.dtype not in PIXELS:
        raise OpTypeError("image", f"u8, u16 or f32, not {found}")
    channels = found.dims[2] if len(found.dims) == 3 else 1
    for argument, name in zip(arguments[1:], ("mean", "std", "scale", "divisor"), strict=True):
        if name == "divisor" and argument.literal is None:
            continue
        given = constants(argument.literal, name)
        if given.ndim > 1 or (given.size > 1 and not dims.unify(channels, given.size)):
            raise OpTypeError(name, f"one number, or one for each channel of {found}")
        if name in ("std", "divisor") and not np.all(given):
            raise OpTypeError(name, "numbers other than 0")
    if arguments[4].literal is not None and arguments[3].literal != SCALE:
        raise OpTypeError("divisor", "left out beside `scale`: pixels are multiplied or divided")
    return (TensorType(DType.F32, found.dims),)


def constants(literal: Literal, name: str) -> Array:
    """Return one number or one a channel as f32."""
    try:
        given = array(literal)
    except TypeError:
        given = np.empty(0, object)
    if given.dtype.kind not in "fiu" or given.size == 0:
        raise OpTypeError(name, f"numbers, not {literal!r}")
    return given.astype(np.float32)


def reference(image: Item, mean: Literal, std: Literal, scale: Literal, divisor: Literal) -> Array:
    x = array(image).astype(np.float32)
    if divisor is None:
        np.multiply(x, array(scale).astype(np.float32), out=x)
    else:
        np.divide(x, array(divisor).astype(np.float32), out=x)
    np.subtract(x, array(mean).astype(np.float32), out=x)
    np.divide(x, array(std).astype(np.float32), out=x)
    return x


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    image, mean, std, scale, divisor = operands
    dtype = tensor_type(image.type).dtype
    require(dtype, PIXELS, "Cast")
    x = emit.tensor(image)
    if dtype is not DType.F32:
        (x,) = emit.node("Cast", [x], to=to_onnx(DType.F32))

    def constant(operand: Operand) -> str:
        return emit.constant(array(operand.literal).astype(np.float32))

    if divisor.literal is None:
        (x,) = emit.node("Mul", [x, constant(scale)])
    else:
        (x,) = emit.node("Div", [x, constant(divisor)])
    (x,) = emit.node("Sub", [x, constant(mean)])
    return emit.node("Div", [x, constant(std)])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (6, 5, 3)).astype(np.uint8)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    return [
        (pixels,),
        (pixels, mean, std),
        (pixels, 0.5, std, 1.0),
        (pixels, 127.5, 127.5, SCALE, 1),
        (pixels, 0.5, 0.5, SCALE, 255),
        (pixels[:, :, 0],),
        (pixels.astype(np.float32) / np.float32(3), mean, 0.3, 0.7),
        (pixels.astype(np.uint16) * 257, 0, 1, 1 / 65535),
    ]


OP = Op(
    name="image.normalize",
    summary="Gives ((x * scale) - mean) / std in f32, rounded after each step, or "
    "((x / divisor) - mean) / std with a divisor. The defaults map 0..255 to -1..1.",
    params=(
        Param("image", "An image [h, w] or [h, w, c] of u8, u16 or f32."),
        Param("mean", "One number, or one a channel.", True, has_default=True, default=0.5),
        Param("std", "One number, or one a channel.", True, has_default=True, default=0.5),
        Param("scale", "What pixels are multiplied by.", True, has_default=True, default=SCALE),
        Param("divisor", "What they are divided by instead.", True, has_default=True),
    ),
    results=("x",),
    types=types,
    reference=reference,
    lowering=lower,
    example="x = image.normalize(page, mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225])",
    samples=samples,
)
