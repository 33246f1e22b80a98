"""The operator @: matrix products of the last two axes."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, TensorType, Type
from ..lowering import FLOATS, operand_dtype, rank, require, squeeze, tensor_type, unsqueeze
from ..op import Argument, Array, Emitter, Op, Operand, OpTypeError, Param, Sample
from ..rules import broadcast, common_dtype, number, same_size
from ..values import array

NAMES = ("left", "right")


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    dtype = common_dtype(arguments, NAMES, dims)
    left, right = (number(one, name, dims) for one, name in zip(arguments, NAMES, strict=True))
    for found, name in ((left, "left"), (right, "right")):
        if not found.dims:
            raise OpTypeError(name, "a vector or matrix, not a scalar; `*` multiplies by one")
    inner = right.dims[0] if len(right.dims) == 1 else right.dims[-2]
    same_size(
        left.dims[-1], inner, "right", f"of as many rows as {left} has columns, not {right}", dims
    )
    outer: tuple[Dim, ...] = broadcast(
        [TensorType(dtype, left.dims[:-2]), TensorType(dtype, right.dims[:-2])], NAMES, dims
    )
    rows = left.dims[-2:-1]
    columns = right.dims[-1:] if len(right.dims) > 1 else ()
    return (TensorType(dtype, outer + rows + columns),)


def reference(left: Array, right: Array) -> Array:
    with np.errstate(all="ignore"):
        first = array(left)
        # NumPy has no product of bf16 and gives f32.
        return np.matmul(first, array(right)).astype(first.dtype, copy=False)


def lower(emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]) -> tuple[str, ...]:
    require(operand_dtype(operands), FLOATS, "MatMul")
    left, right = operands
    outer = max(rank(left), rank(right), 2) - 2
    tensors: list[str] = []
    for operand, vector_axis in ((left, 0), (right, 1)):
        item_rank = rank(operand)
        # A vector becomes a matrix, then missing outer axes go behind the batch axis.
        front = int(operand.batched)
        name = emit.tensor(operand)
        if item_rank == 1:
            name = unsqueeze(emit, name, [front + vector_axis])
        missing = outer - (max(item_rank, 2) - 2) if operand.batched else 0
        tensors.append(unsqueeze(emit, name, [1 + i for i in range(missing)]))
    (product,) = emit.node("MatMul", tensors)
    item_rank = outer + 2
    removed = ([item_rank - 2] if rank(left) == 1 else []) + (
        [item_rank - 1] if rank(right) == 1 else []
    )
    squeezed = squeeze(emit, product, [axis + int(emit.batched) for axis in removed])
    assert len(tensor_type(results[0]).dims) == item_rank - len(removed)
    return (squeezed,)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    def draw(*shape: int) -> Array:
        return random.normal(0, 1, shape).astype(np.float32)

    return [
        (draw(3, 4), draw(4, 2)),
        (draw(4), draw(4, 2)),
        (draw(3, 4), draw(4)),
        (draw(4), draw(4)),
        (draw(5, 3, 4), draw(4, 2)),
        (draw(4), draw(5, 4, 2)),
        (draw(2, 1, 3, 4), draw(5, 4, 2)),
        (draw(3, 4).astype(np.float64), draw(4, 2).astype(np.float64)),
        (np.ones((2, 3), np.int32), np.ones((3, 2), np.int32)),
    ]


OP = Op(
    name="math.matmul",
    summary="Multiplies matrices, with NumPy's rules for vectors and further axes: `a @ b`.",
    params=(
        Param("left", "A vector, a matrix, or a stack of matrices."),
        Param("right", "As left."),
    ),
    results=("product",),
    types=types,
    reference=reference,
    lowering=lower,
    exact=False,
    example="y = x @ weights",
    samples=samples,
)
