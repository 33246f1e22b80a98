"""Integers as rows of bits."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_integer
from ..elementwise import Function, function, same_type
from ..lowering import elementwise
from ..op import (
    Argument,
    Array,
    Decline,
    Emitter,
    Item,
    Kernel,
    Lowering,
    Op,
    Operand,
    OpTypeError,
    Param,
    Reference,
    Sample,
)
from ..rules import tensor
from ..values import array, integer

NAMES = ("left", "right")
PARAMS = (Param("left", "Integers."), Param("right", "Integers of the same dtype."))
INTEGERS = frozenset(dtype for dtype in DType if dtype.is_integer)


def is_integer(dtype: DType) -> bool:
    return dtype.is_integer


def lower_bits(op_type: str) -> Lowering:
    write = elementwise(op_type, INTEGERS)

    def lower(
        emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
    ) -> tuple[str, ...]:
        if emit.opset < 18:
            raise Decline(f"{op_type} came with opset 18, and the model has {emit.opset}")
        return write(emit, operands, results)

    return lower


def shift_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = tensor(arguments[0], "x", dims)
    if not found.dtype.is_integer:
        raise OpTypeError("x", f"integers, not {found}")
    width = int(found.dtype.value[1:])
    count = constant_integer(arguments[1], "count")
    if not 0 <= count < width:
        raise OpTypeError("count", f"0 to {width - 1}, not {count}")
    return (TensorType(found.dtype, found.dims),)


def shifted(apply: Function) -> Reference:
    def reference(x: Item, count: int) -> Array:
        value = array(x)
        return apply(value, value.dtype.type(integer(count)))

    return reference


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.integers(0, 200, (3, 4)).astype(np.uint8)
    wide = random.integers(-(2**62), 2**62, 4)
    return [(x, x[0]), (x, 15), (wide, wide[::-1].copy()), (np.int32(-7), 3), (6, 3)]


def unary_samples(random: np.random.Generator) -> Sequence[Sample]:
    return [(sample[0],) for sample in samples(random)]


def shift_samples(random: np.random.Generator) -> Sequence[Sample]:
    return [(sample[0], count) for sample in samples(random) for count in (0, 3)]


def pair(name: str, op_type: str, sign: str, apply: Function, summary: str) -> Op:
    return Op(
        name=f"math.{name}",
        summary=summary,
        params=PARAMS,
        results=("bits",),
        types=same_type(NAMES, is_integer, "integers"),
        reference=function(apply),
        lowering=lower_bits(op_type),
        example=f"y = math.{name}(ids, 255)",
        kernel=Kernel(f"{{0}} {sign} {{1}}", wraps=True),
        samples=samples,
    )


def shift(name: str, kernel: Kernel, apply: Function, summary: str) -> Op:
    return Op(
        name=f"math.{name}",
        summary=summary,
        params=(
            Param("x", "Integers."),
            Param("count", "By how many bits; fewer than `x` has.", constant=True),
        ),
        results=("bits",),
        types=shift_types,
        reference=shifted(apply),
        example=f"y = math.{name}(ids, 3)",
        kernel=kernel,
        samples=shift_samples,
    )


OPS = (
    pair("bit_and", "BitwiseAnd", "&", np.bitwise_and, "Keeps the bits that both sides have."),
    pair("bit_or", "BitwiseOr", "|", np.bitwise_or, "Joins the bits that either side has."),
    pair("bit_xor", "BitwiseXor", "^", np.bitwise_xor, "Keeps the bits in which the sides differ."),
    Op(
        name="math.bit_not",
        summary="Turns every bit over.",
        params=(Param("x", "Integers."),),
        results=("bits",),
        types=same_type(("x",), is_integer, "integers"),
        reference=function(np.invert),
        lowering=lower_bits("BitwiseNot"),
        example="y = math.bit_not(ids)",
        kernel=Kernel("~{0}", wraps=True),
        samples=unary_samples,
    ),
    shift(
        "shift_left",
        Kernel("{0} << {1}", wraps=True),
        np.left_shift,
        "Moves bits up; those that leave are lost.",
    ),
    shift(
        "shift_right",
        Kernel("{0} >> {1}"),
        np.right_shift,
        "Moves bits down; signed integers keep their sign.",
    ),
)
