"""How large a value is: `len`, `shape`, `height`, `width`."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, ListType, TensorType, Type
from ..lowering import MOVABLE, integers, require, tensor_type
from ..op import Argument, Array, Emitter, Item, Lowering, Op, Operand, OpTypeError, Param, Sample
from ..rules import ranked, scalar, tensor
from ..values import array

IMAGE = "an image [h, w] or [h, w, c]"


def len_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    if not isinstance(arguments[0].type, ListType):
        found = tensor(arguments[0], "x", dims)
        if not found.dims and found.dtype not in (DType.STRING, DType.BYTES):
            raise OpTypeError("x", f"a tensor with an axis, a list, text or bytes, not {found}")
    return scalar(DType.I64)


def length(x: Item) -> Array:
    if isinstance(x, list | str | bytes):
        return np.asarray(len(x), np.int64)
    return np.asarray(array(x).shape[0], np.int64)


def shape_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    return (TensorType(DType.I64, (len(tensor(arguments[0], "x", dims).dims),)),)


def shape(x: Item) -> Array:
    return np.array(array(x).shape, np.int64)


def side_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    ranked(tensor(arguments[0], "image", dims), "image", 2, 3, form=IMAGE)
    return scalar(DType.I64)


def height(image: Array) -> Array:
    return np.asarray(array(image).shape[0], np.int64)


def width(image: Array) -> Array:
    return np.asarray(array(image).shape[1], np.int64)


def size_of_axis(axis: int) -> Lowering:
    def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
        found = tensor_type(operands[0].type)
        require(found.dtype, MOVABLE, "Shape")
        (whole,) = emit.node("Shape", [emit.tensor(operands[0])])
        place = emit.axis(axis, len(found.dims))
        (size,) = emit.node("Gather", [whole, emit.constant(np.array(place, np.int64))], axis=0)
        return (repeated(emit, size, whole),)

    return lower


def lower_shape(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    found = tensor_type(operands[0].type)
    require(found.dtype, MOVABLE, "Shape")
    (whole,) = emit.node("Shape", [emit.tensor(operands[0])])
    rank = len(found.dims)
    places = integers(emit, [emit.axis(axis, rank) for axis in range(rank)])
    (own,) = emit.node("Gather", [whole, places], axis=0)
    return (repeated(emit, own, whole, rank),)


def repeated(emit: Emitter, sizes: str, whole: str, *shape: int) -> str:
    """Repeat what is known of all rows of a batch once a row."""
    if not emit.batched:
        return sizes
    (rows,) = emit.node("Gather", [whole, integers(emit, [0])], axis=0)
    if shape:
        (rows,) = emit.node("Concat", [rows, integers(emit, shape)], axis=0)
    return emit.node("Expand", [sizes, rows])[0]


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (5, 2, 3)).astype(np.float32)
    return [(x,), (x[:, 0, 0],), ([x, x],), ("héllo",), (b"abc",), (np.array(["a"], object),)]


def tensor_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (5, 2, 3)).astype(np.float32)
    return [(x,), (x[0],), (x[:, 0, 0],), (x[0, 0, 0],)]


def image_samples(random: np.random.Generator) -> Sequence[Sample]:
    pixels = random.integers(0, 256, (7, 5, 3)).astype(np.uint8)
    return [(pixels,), (pixels[:, :, 0],)]


OPS = (
    Op(
        name="core.len",
        summary="Counts the elements of the first axis, the items of a list, the characters of a "
        "string or the bytes of bytes.",
        params=(Param("x", "A tensor, list, string or bytes."),),
        results=("n",),
        types=len_types,
        reference=length,
        lowering=size_of_axis(0),
        example="n = len(boxes)",
        samples=samples,
    ),
    Op(
        name="core.shape",
        summary="Gives the sizes of all axes.",
        params=(Param("x", "A tensor."),),
        results=("sizes",),
        types=shape_types,
        reference=shape,
        lowering=lower_shape,
        example="sizes = shape(x)",
        samples=tensor_samples,
    ),
    Op(
        name="core.height",
        summary="Gives the height of an image in pixels.",
        params=(Param("image", "An image [h, w] or [h, w, c]."),),
        results=("h",),
        types=side_types,
        reference=height,
        lowering=size_of_axis(0),
        example="h = height(page)",
        samples=image_samples,
    ),
    Op(
        name="core.width",
        summary="Gives the width of an image in pixels.",
        params=(Param("image", "An image [h, w] or [h, w, c]."),),
        results=("w",),
        types=side_types,
        reference=width,
        lowering=size_of_axis(1),
        example="w = width(page)",
        samples=image_samples,
    ),
)
