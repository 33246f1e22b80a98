"""Giving the same elements another shape."""

from collections.abc import Sequence
from math import prod

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DimArith, TensorType, Type
from ..lowering import MOVABLE, require, tensor_type
from ..lowering import integers as row
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
from ..rules import sizes, tensor
from ..values import array, integers


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    wanted = list(sizes(arguments[1], "shape", dims))
    if not arguments[1].known:
        return (TensorType(found.dtype, tuple(wanted)),)
    known = [size for size in wanted if isinstance(size, int)]
    if any(size < -1 for size in known) or known.count(-1) > 1:
        raise OpTypeError("shape", f"sizes of at least 0, and at most one -1, not {wanted}")
    rest = prod(size for size in known if size != -1)
    whole = [dims.resolve(dim) for dim in found.dims]
    total = product(whole, dims)
    if -1 not in known:
        if isinstance(total, int) and total != rest:
            raise OpTypeError("shape", f"{total} elements like {found}, not {rest}")
        if not dims.unify(total, rest):
            raise OpTypeError("shape", f"as many elements as {found} has, not {rest}")
    elif isinstance(total, int):
        if rest == 0 or total % rest:
            raise OpTypeError("shape", f"a divisor of the {total} elements of {found}, not {rest}")
        wanted[wanted.index(-1)] = total // rest
    else:
        wanted[wanted.index(-1)] = quotient(total, rest, dims)
    return (TensorType(found.dtype, tuple(wanted)),)


def product(sizes: Sequence[Dim], dims: Dims) -> Dim:
    total: Dim = 1
    for size in sizes:
        total = dims.resolve(DimArith("*", total, size))
    return total


def quotient(total: Dim, rest: int, dims: Dims) -> Dim:
    return dims.resolve(DimArith("/", total, rest)) if rest else dims.fresh("n")


def reference(x: Item, shape: "Item | Literal") -> Array:
    return array(x).reshape(integers(shape))


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x, shape = operands
    require(tensor_type(x.type).dtype, MOVABLE, "Reshape")
    if shape.tensor is not None:
        raise Decline("a shape made at run time may differ from row to row")
    wanted = integers(shape.literal)
    if 0 in wanted:
        raise Decline("ONNX reads a size of 0 as `unchanged`")
    # 0 keeps the batch axis as it is.
    whole = (0, *wanted) if x.batched else wanted
    return emit.node("Reshape", [emit.tensor(x), row(emit, whole)])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 1, (2, 3, 4)).astype(np.float32)
    return [
        (x, (6, 4)),
        (x, (-1,)),
        (x, -1),
        (x, (4, -1, 2)),
        (x[:1, :1, :1], ()),
        (x, np.array([8, 3])),
        (x > 0, (24,)),
        (np.array(["a", "b"], object), (2, 1)),
    ]


OP = Op(
    name="core.reshape",
    summary="Gives the elements another shape, in the same order.",
    params=(
        Param("x", "A tensor."),
        Param("shape", "The sizes; one of them may be -1 and follows from the others."),
    ),
    results=("y",),
    types=types,
    reference=reference,
    lowering=lower,
    example="flat = reshape(x, [-1])",
    samples=samples,
)
