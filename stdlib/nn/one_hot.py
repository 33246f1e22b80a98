"""Integers to rows with a single 1."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_dtype
from ..dtypes import to_numpy, to_onnx
from ..lowering import require, tensor_type, unsqueeze
from ..op import (
    Argument,
    Array,
    Decline,
    Emitter,
    Item,
    Literal,
    Op,
    Operand,
    OpTypeError,
    Param,
    Sample,
)
from ..rules import size_or_fresh, tensor
from ..values import array, integer

IDS = frozenset({DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32, DType.I64})


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "ids", dims)
    if not found.dtype.is_integer:
        raise OpTypeError("ids", f"integers, not {found}")
    dtype = constant_dtype(arguments[2], "dtype")
    if not (dtype.is_number or dtype is DType.BOOL):
        raise OpTypeError("dtype", f"a dtype of numbers or bool, not {dtype.value}")
    depth = size_or_fresh(arguments[1], "depth", "k", dims)
    return (TensorType(dtype, (*found.dims, depth)),)


def reference(ids: Item, depth: "Item | Literal", dtype: DType) -> Array:
    classes = np.arange(integer(depth), dtype=np.int64)
    value = array(ids)
    if value.dtype == np.uint64:  # what i64 does not hold is no class either
        value = np.minimum(value, np.uint64(np.iinfo(np.int64).max))
    return np.equal(value.astype(np.int64)[..., None], classes).astype(to_numpy(dtype))


def lower(emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]) -> tuple[str, ...]:
    ids, depth, _ = operands
    found = tensor_type(ids.type)
    require(found.dtype, IDS, "Cast")
    target = tensor_type(results[0]).dtype
    if depth.tensor is not None:
        raise Decline("a depth made at run time may differ from row to row")
    if target is DType.BF16:
        raise Decline("ONNX Runtime has no CPU kernel of Cast for bf16")
    x = emit.tensor(ids)
    if found.dtype is not DType.I64:
        (x,) = emit.node("Cast", [x], to=to_onnx(DType.I64))
    column = unsqueeze(emit, x, [emit.axis(len(found.dims), len(found.dims) + 1)])
    classes = emit.constant(np.arange(integer(depth.literal), dtype=np.int64))
    return emit.node("Cast", emit.node("Equal", [column, classes]), to=to_onnx(target))


def samples(random: np.random.Generator) -> Sequence[Sample]:
    ids = random.integers(-1, 6, (3, 4))
    return [
        (ids, 5),
        (ids.astype(np.int32), 5, DType.I64),
        (ids[0], 3, DType.BOOL),
        (np.array(2), 4, DType.F16),
        (np.array([1], np.uint8), np.array(3)),
    ]


OP = Op(
    name="nn.one_hot",
    summary="Makes a row of `depth` elements of each integer: 1 at its place, 0 elsewhere; only "
    "zeros if it is not 0 to depth - 1.",
    params=(
        Param("ids", "Integers."),
        Param("depth", "The length of a row."),
        Param("dtype", "The dtype of the result.", True, has_default=True, default=DType.F32),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    example="y = nn.one_hot(label, 10)",
    samples=samples,
)
