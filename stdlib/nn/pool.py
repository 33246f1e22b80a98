"""One vector of many: the mean or maximum of those that a mask lets through."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_choice
from ..dtypes import to_numpy, to_onnx
from ..lowering import (
    FLOATS,
    nan_flags,
    nan_of,
    rank,
    reduce,
    require,
    tensor_type,
    unsqueeze,
    with_nan,
)
from ..op import Argument, Array, Emitter, Item, Op, Operand, OpTypeError, Param, Sample
from ..rules import floating, ranked, same_size, tensor
from ..values import array

KINDS = ("mean", "max")


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = ranked(floating(arguments[0], "x", dims), "x", 2, form="vectors [L, D]")
    mask = tensor(arguments[1], "mask", dims)
    if not (mask.dtype.is_integer or mask.dtype is DType.BOOL) or len(mask.dims) != 1:
        raise OpTypeError("mask", f"bools or integers [L], not {mask}")
    same_size(found.dims[0], mask.dims[0], "mask", "one element for each vector", dims)
    constant_choice(arguments[2], "kind", KINDS)
    return (TensorType(found.dtype, found.dims[1:]),)


def reference(x: Item, mask: Item, kind: str) -> Array:
    vectors = array(x)
    inside = np.not_equal(array(mask), 0)[:, None]
    with np.errstate(all="ignore"):
        if kind == "max":
            lowest = vectors.dtype.type(-np.inf)
            return np.maximum.reduce(np.where(inside, vectors, lowest), axis=0, initial=lowest)
        # What is masked out may be anything, NaN too.
        total = np.add.reduce(np.where(inside, vectors, vectors.dtype.type(0)), axis=0)
        count = max(int(np.count_nonzero(inside)), 1)
        return np.divide(total, vectors.dtype.type(count))


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, mask, kind = operands
    dtype = tensor_type(x.type).dtype
    require(dtype, FLOATS, "Where")
    vectors, inside = emit.tensor(x), emit.tensor(mask)
    if tensor_type(mask.type).dtype is not DType.BOOL:
        (inside,) = emit.node("Cast", [inside], to=to_onnx(DType.BOOL))
    column = unsqueeze(emit, inside, [rank(mask) + int(mask.batched)])
    place = emit.axis(0, 2)
    numpy = to_numpy(dtype)
    if kind.literal == "max":
        lowest = emit.constant(np.array(-np.inf, numpy))
        (left,) = emit.node("Where", [column, vectors, lowest])
        result = reduce(emit, "ReduceMax", left, [place], keepdims=False)
        (flags,) = nan_flags(emit, left)
        (any_nan,) = reduce(emit, "ReduceMax", flags, [place], keepdims=False)
        return with_nan(emit, any_nan, emit.constant(nan_of(dtype)), *result)
    (left,) = emit.node("Where", [column, vectors, emit.constant(np.zeros((), numpy))])
    (total,) = reduce(emit, "ReduceSum", left, [place], keepdims=False)
    (weights,) = emit.node("Cast", [column], to=to_onnx(dtype))
    along = 1 if mask.batched else 0
    (count,) = reduce(emit, "ReduceSum", weights, [along], keepdims=False)
    (least,) = emit.node("Max", [count, emit.constant(np.ones((), numpy))])
    return emit.node("Div", [total, least])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (6, 4)).astype(np.float32)
    mask = np.array([1, 1, 0, 1, 0, 0])
    return [
        (x, mask),
        (x, mask, "max"),
        (x, mask.astype(np.int32)),
        (x.astype(np.float64), mask > 0, "max"),
        (x.astype(np.float64), mask > 0),
        (x, mask * 0),
        (x, mask * 0, "max"),
    ]


OP = Op(
    name="nn.pool",
    summary="Makes one vector of those where a mask is not 0: their mean, or their greatest "
    "element by element. Of none the mean is 0 and the greatest minus infinity.",
    params=(
        Param("x", "Vectors [L, D], such as a text's tokens."),
        Param("mask", "Bools or integers [L]."),
        Param("kind", '"mean" or "max".', constant=True, has_default=True, default="mean"),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    exact=False,
    example="pooled = nn.pool(tokens, mask)",
    samples=samples,
)
