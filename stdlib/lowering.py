"""Parts of lowerings: aligning items of different rank under one batch axis, and dtypes.

A batched tensor is [batch, *item]; NumPy broadcasting of items aligns them from the right, so an
item of lower rank needs its missing axes between the batch axis and its own.
"""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from ..dsl.types import DType, TensorType, Type
from .dtypes import to_numpy, to_onnx
from .op import Array, Decline, Emitter, Lowering, Operand

ARITHMETIC: Final = frozenset({DType.F32, DType.F64, DType.I32, DType.I64})
FLOATS: Final = frozenset({DType.F32, DType.F64})
"""What ONNX Runtime's CPU kernels compute themselves; f16 and bf16 go through inserted casts
there, whose rounding depends on what is fused around them."""
MOVABLE: Final = frozenset(DType) - {DType.STRING, DType.BYTES}
"""What can be moved about in a graph; text stays outside of it."""


def tensor_type(type: Type) -> TensorType:
    """Return a type as a tensor's; lists and optionals have no place in a graph."""
    if not isinstance(type, TensorType):
        raise Decline(f"{type} is not a tensor")
    return type


def rank(operand: Operand) -> int:
    """Return the number of axes of the item."""
    return len(tensor_type(operand.type).dims)


def require(dtype: DType, allowed: Collection[DType], what: str) -> None:
    """Decline a dtype that ONNX Runtime has no CPU kernel for."""
    if dtype not in allowed:
        raise Decline(f"ONNX Runtime has no CPU kernel of {what} for {dtype.value}")


def integers(emit: Emitter, values: Sequence[int]) -> str:
    """Return a row of integers as an initialiser: axes, shapes, starts."""
    return emit.constant(np.array(values, np.int64))


def unsqueeze(emit: Emitter, tensor: str, axes: Sequence[int]) -> str:
    """Insert axes of size 1 at graph positions `axes` of the result."""
    if not axes:
        return tensor
    return emit.node("Unsqueeze", [tensor, integers(emit, axes)])[0]


def squeeze(emit: Emitter, tensor: str, axes: Sequence[int]) -> str:
    """Remove axes of size 1 at graph positions `axes`."""
    if not axes:
        return tensor
    return emit.node("Squeeze", [tensor, integers(emit, axes)])[0]


def aligned(emit: Emitter, operand: Operand, to_rank: int, dtype: DType | None = None) -> str:
    """Return the operand so that its item has `to_rank` axes, the new ones in front."""
    tensor = emit.tensor(operand, dtype)
    missing = to_rank - rank(operand) if operand.batched else 0
    return unsqueeze(emit, tensor, [1 + i for i in range(missing)])


def batched_like(emit: Emitter, operand: Operand, like: Operand, dtype: DType | None) -> str:
    """Return the operand with the batch axis, repeating it when it has none.

    `like` is a batched operand, which gives the size of the batch.
    """
    tensor = emit.tensor(operand, dtype)
    if operand.batched or not emit.batched:
        return tensor
    if like.tensor is None:
        raise Decline("no operand has the batch axis")
    require(tensor_type(operand.type).dtype, frozenset(DType) - {DType.BF16}, "Expand")
    (shape,) = emit.node("Shape", [tensor])
    (full,) = emit.node("Concat", [batch_size(emit, like.tensor), shape], axis=0)
    return emit.node("Expand", [tensor, full])[0]


def batch_size(emit: Emitter, batched: str) -> str:
    """Return the size of the batch axis as a row of one integer."""
    (shape,) = emit.node("Shape", [batched])
    return emit.node("Gather", [shape, integers(emit, [0])], axis=0)[0]


def first_batched(operands: Sequence[Operand]) -> Operand:
    """Return an operand with the batch axis, the first operand when none has it."""
    return next((one for one in operands if one.batched), operands[0])


def operand_dtype(operands: Sequence[Operand]) -> DType:
    """Return the dtype that operands share; number literals take that of the others."""
    strong = [one for one in operands if one.tensor is not None]
    strong += [one for one in operands if one.tensor is None and not _weak(one)]
    return tensor_type((strong or list(operands))[0].type).dtype


def elementwise(op_type: str, allowed: Collection[DType]) -> Lowering:
    """Make the lowering of an op that ONNX has as one node with NumPy broadcasting."""

    def lower(
        emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
    ) -> tuple[str, ...]:
        dtype = operand_dtype(operands)
        require(dtype, allowed, op_type)
        item_rank = len(tensor_type(results[0]).dims)
        inputs = [aligned(emit, operand, item_rank, dtype) for operand in operands]
        return emit.node(op_type, inputs)

    return lower


def reduce(
    emit: Emitter, op_type: str, tensor: str, axes: Sequence[int], keepdims: bool
) -> tuple[str, ...]:
    """Write a reduction over graph axes, in the form that the opset has."""
    axes_are_inputs = op_type == "ReduceSum" or emit.opset >= 18
    if axes_are_inputs:
        return emit.node(op_type, [tensor, integers(emit, axes)], keepdims=int(keepdims))
    return emit.node(op_type, [tensor], axes=list(axes), keepdims=int(keepdims))


def mean(
    emit: Emitter, tensor: str, type: TensorType, axes: Sequence[int], keepdims: bool
) -> tuple[str, ...]:
    """Write the mean over an item's axes: NaN of nothing, of which ReduceMean makes 0."""
    places = [emit.axis(axis, len(type.dims)) for axis in axes]
    sizes = [type.dims[axis] for axis in axes]
    if 0 in sizes:
        raise Decline("there is nothing to average")
    if all(isinstance(size, int) for size in sizes):
        return reduce(emit, "ReduceMean", tensor, places, keepdims)
    (total,) = reduce(emit, "ReduceSum", tensor, places, keepdims)
    (shape,) = emit.node("Shape", [tensor])
    (own,) = emit.node("Gather", [shape, integers(emit, places)], axis=0)
    (count,) = reduce(emit, "ReduceProd", own, [0], keepdims=False)
    return emit.node("Div", [total, *emit.node("Cast", [count], to=to_onnx(type.dtype))])


def flip(emit: Emitter, tensor: str, axes: Sequence[int]) -> str:
    """Reverse graph axes."""
    count = len(axes)
    first, past, back = [-1] * count, [-(2**63) + 1] * count, [-1] * count
    rows = [integers(emit, row) for row in (first, past, list(axes), back)]
    return emit.node("Slice", [tensor, *rows])[0]


def nan_flags(emit: Emitter, tensor: str) -> tuple[str, ...]:
    """Write 1 where a tensor is NaN and 0 elsewhere, as i32."""
    return emit.node("Cast", emit.node("IsNaN", [tensor]), to=to_onnx(DType.I32))


def with_nan(emit: Emitter, any_nan: str, instead: str, result: str) -> tuple[str, ...]:
    """Write `instead` where a flag of `nan_flags` is set and the result elsewhere."""
    # Of no flags the greatest is the least integer: only above 0 there is one.
    (condition,) = emit.node("Greater", [any_nan, emit.constant(np.zeros((), np.int32))])
    return emit.node("Where", [condition, instead, result])


def nan_of(dtype: DType) -> Array:
    """Return NaN as a scalar of a dtype."""
    return np.array(np.nan, to_numpy(dtype))


def _weak(operand: Operand) -> bool:
    literal = operand.literal
    if isinstance(literal, tuple):
        return all(type(one) in (int, float, tuple) for one in literal)
    return type(literal) in (int, float)
