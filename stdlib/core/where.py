"""Choosing between two tensors, element by element."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..lowering import aligned, operand_dtype, require, tensor_type
from ..op import Argument, Array, Emitter, Item, Kernel, Literal, Op, Operand, Param, Sample
from ..rules import broadcast, common_dtype, of_dtype, tensor
from ..values import array, same_dtype, scalar_or_array

NAMES = ("condition", "yes", "no")
KERNELS = frozenset({DType.U8, DType.I32, DType.I64, DType.F32, DType.F64})


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    condition = of_dtype(arguments[0], "condition", dims, DType.BOOL)
    dtype = common_dtype(arguments[1:], NAMES[1:], dims)
    yes, no = (tensor(one, name, dims) for one, name in zip(arguments[1:], NAMES[1:], strict=True))
    return (TensorType(dtype, broadcast([condition, yes, no], NAMES, dims)),)


def reference(condition: Array, yes: "Item | Literal", no: "Item | Literal") -> Item:
    return scalar_or_array(np.where(array(condition), *same_dtype(yes, no)))


def lower(emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]) -> tuple[str, ...]:
    dtype = operand_dtype(operands[1:])
    require(dtype, KERNELS, "Where")
    rank = len(tensor_type(results[0]).dims)
    condition = aligned(emit, operands[0], rank, DType.BOOL)
    return emit.node("Where", [condition, *(aligned(emit, o, rank, dtype) for o in operands[1:])])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (3, 4)).astype(np.float32)
    return [
        (x > 0, x, 0),
        (x[0] > 0, x, x[:, :1]),
        (x > 0, 1, x[0]),
        (np.array(True), x, x[0]),
        (x > 0, x.astype(np.int64), -1),
        (x > 0, 1, 0),
        (x[0] > 0, np.array(["a", "b", "c", "d"], object), "-"),
    ]


OP = Op(
    name="core.where",
    summary="Takes `yes` where the condition holds and `no` elsewhere. Both are computed; "
    "`if` computes one.",
    params=(
        Param("condition", "Bools."),
        Param("yes", "Values where it holds."),
        Param("no", "Values elsewhere, of the same dtype."),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    example="y = where(x > 0, x, 0)",
    kernel=Kernel("{0} ? {1} : {2}", selects=True),
    samples=samples,
)
