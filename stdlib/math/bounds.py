"""Lesser and greater of two, and both at once."""

from collections.abc import Sequence

import numpy as np

from ...dsl.types import Type
from ..elementwise import function, is_number, same_type
from ..lowering import ARITHMETIC, aligned, elementwise, operand_dtype, require, tensor_type
from ..op import Array, Emitter, Kernel, Op, Operand, Param, Sample

NAMES = ("left", "right")
PARAMS = (Param("left", "One side."), Param("right", "The other side."))
CLIP = ("x", "low", "high")


def clip(x: Array, low: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


def lower_clip(
    emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
) -> tuple[str, ...]:
    dtype = operand_dtype(operands)
    require(dtype, ARITHMETIC, "Clip")
    rank = len(tensor_type(results[0]).dims)
    x, low, high = (aligned(emit, one, rank, dtype) for one in operands)
    return emit.node("Min", [*emit.node("Max", [x, low]), high])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 3, (3, 4)).astype(np.float32)
    x[1, 1] = np.nan
    return [
        (x, x[2]),
        (x, 0.5),
        (x[0, 0], x),
        (x.astype(np.float64), 1),
        (random.integers(-9, 9, 4).astype(np.int32), 2),
        (random.integers(0, 9, 4).astype(np.uint8), 2),
    ]


def clip_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 3, (3, 4)).astype(np.float32)
    x[1, 1] = np.nan
    return [
        (x, 0, 1),
        (x, -0.5, x[2]),
        (x[0, 0], 0.25, 0.75),
        (random.integers(-9, 9, 4).astype(np.int64), -3, 3),
        (random.integers(0, 9, 4).astype(np.uint8), 2, 5),
    ]


OPS = (
    Op(
        name="math.minimum",
        summary="Gives the lesser of two, element by element; NaN if either is.",
        params=PARAMS,
        results=("least",),
        types=same_type(NAMES, is_number, "numbers"),
        reference=function(np.minimum),
        lowering=elementwise("Min", ARITHMETIC),
        example="y = math.minimum(x, 1)",
        kernel=Kernel("lesser_of({0}, {1})"),
        samples=samples,
    ),
    Op(
        name="math.maximum",
        summary="Gives the greater of two, element by element; NaN if either is.",
        params=PARAMS,
        results=("greatest",),
        types=same_type(NAMES, is_number, "numbers"),
        reference=function(np.maximum),
        lowering=elementwise("Max", ARITHMETIC),
        example="y = math.maximum(x, 0)",
        kernel=Kernel("greater_of({0}, {1})"),
        samples=samples,
    ),
    Op(
        name="math.clip",
        summary="Limits values to `low` and `high`; NaN stays NaN.",
        params=(
            Param("x", "Numbers."),
            Param("low", "The least value."),
            Param("high", "The greatest value; it wins when it is below `low`."),
        ),
        results=("y",),
        types=same_type(CLIP, is_number, "numbers"),
        reference=function(clip),
        lowering=lower_clip,
        example="y = math.clip(x, 0, 1)",
        kernel=Kernel("lesser_of(greater_of({0}, {1}), {2})"),
        samples=clip_samples,
    ),
)
