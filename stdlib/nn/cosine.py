"""How alike the directions of vectors are."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import TensorType, Type
from ..dtypes import to_numpy
from ..lowering import (
    FLOATS,
    operand_dtype,
    rank,
    reduce,
    require,
    squeeze,
    unsqueeze,
)
from ..op import Argument, Array, Emitter, Item, Op, Operand, Param, Sample
from ..rules import common_dtype, floating, ranked, same_size
from ..values import array

NAMES = ("x", "rows")
LEAST = 1e-12
"""The least length that is divided by, so that a vector of zeros is like none."""


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    dtype = common_dtype(arguments, NAMES, dims)
    x = ranked(floating(arguments[0], "x", dims), "x", 1, 2, form="a vector [D] or several [N, D]")
    rows = ranked(floating(arguments[1], "rows", dims), "rows", 2, form="vectors [M, D]")
    same_size(x.dims[-1], rows.dims[1], "rows", "vectors as long as `x`", dims)
    return (TensorType(dtype, (*x.dims[:-1], rows.dims[0])),)


def reference(x: Item, rows: Item) -> Array:
    with np.errstate(all="ignore"):
        one = unit(array(x))
        # NumPy has no product of bf16 and gives f32.
        return np.matmul(one, unit(array(rows)).T).astype(one.dtype, copy=False)


def unit(x: Array) -> Array:
    """Return vectors scaled to length 1."""
    length = np.sqrt(np.add.reduce(np.square(x), axis=-1, keepdims=True))
    return np.divide(x, np.maximum(length, x.dtype.type(LEAST)))


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    dtype = operand_dtype(operands)
    require(dtype, FLOATS, "ReduceL2")
    least = emit.constant(np.array(LEAST, to_numpy(dtype)))
    units: list[str] = []
    for operand in operands:
        tensor = emit.tensor(operand, dtype)
        place = rank(operand) - 1 + int(operand.batched)
        (length,) = reduce(emit, "ReduceL2", tensor, [place], keepdims=True)
        units += emit.node("Div", [tensor, *emit.node("Max", [length, least])])
    x, rows = operands
    order = [0, 2, 1] if rows.batched else [1, 0]
    (columns,) = emit.node("Transpose", [units[1]], perm=order)
    if rank(x) == 2 or not x.batched or not rows.batched:
        return emit.node("MatMul", [units[0], columns])
    (product,) = emit.node("MatMul", [unsqueeze(emit, units[0], [1]), columns])
    return (squeeze(emit, product, [1]),)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (3, 8)).astype(np.float32)
    rows = random.normal(0, 1, (5, 8)).astype(np.float32)
    rows[2] = 0
    return [
        (x, rows),
        (x[0], rows),
        (x[0].astype(np.float64), rows.astype(np.float64)),
        (x, rows[:0]),
        (x.astype(np.float16), rows.astype(np.float16)),
    ]


OP = Op(
    name="nn.cosine",
    summary="Gives the cosine of the angle between a vector, or each of several, and each row of "
    "a matrix: 1 for the same direction, -1 for the opposite one; 0 for a vector of zeros.",
    params=(
        Param("x", "A vector [D], or several [N, D]."),
        Param("rows", "The vectors to compare with, [M, D]."),
    ),
    results=("similarity",),
    types=types,
    reference=reference,
    lowering=lower,
    exact=False,
    example="nearest = argmax(nn.cosine(pooled, centroids))",
    samples=samples,
)
