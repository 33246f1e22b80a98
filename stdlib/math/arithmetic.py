"""The operators + - * / % and unary minus."""

from collections.abc import Sequence

import numpy as np

from ...dsl.types import DType, Type
from ..elementwise import function, is_number, same_type
from ..lowering import ARITHMETIC, aligned, elementwise, operand_dtype, require, tensor_type
from ..op import Array, Decline, Emitter, Kernel, Op, Operand, Param, Sample
from ..values import array

NAMES = ("left", "right")
PARAMS = (Param("left", "The left side."), Param("right", "The right side."))


def adds(dtype: DType) -> bool:
    return dtype.is_number or dtype is DType.STRING


def is_signed(dtype: DType) -> bool:
    return dtype.is_number and not dtype.value.startswith("u")


def divide(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.divide(left, right)
    if not np.all(right):
        raise ZeroDivisionError("an integer is divided by zero")
    return np.floor_divide(np.subtract(left, np.fmod(left, right)), right)


def remainder(left: Array, right: Array) -> Array:
    if left.dtype.kind in "iu" and not np.all(right):
        raise ZeroDivisionError("an integer is divided by zero")
    return np.fmod(left, right)


def divided(
    emit: Emitter, operands: Sequence[Operand], results: Sequence[Type], op_type: str, **mode: int
) -> tuple[str, ...]:
    """Write Div or Mod; integers only by literals that cannot trap (0, and -1 for the least)."""
    dtype = operand_dtype(operands)
    require(dtype, ARITHMETIC, op_type)
    divisor = operands[1]
    if dtype.is_integer:
        if divisor.tensor is not None or divisor.literal is None:
            raise Decline("an integer divisor made at run time may be zero, which ends the process")
        if bool(np.any(np.isin(array(divisor.literal), (0, -1)))):
            raise Decline("dividing integers by 0 or -1 may end the process")
    rank = len(tensor_type(results[0]).dims)
    return emit.node(op_type, [aligned(emit, one, rank, dtype) for one in operands], **mode)


def lower_divide(
    emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
) -> tuple[str, ...]:
    return divided(emit, operands, results, "Div")


def lower_remainder(
    emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
) -> tuple[str, ...]:
    return divided(emit, operands, results, "Mod", fmod=1)


def known_divisor(dtype: DType, literals: "Sequence[Array | None]") -> None:
    """Decline an integer divisor that may be zero, which is an error."""
    if dtype.is_integer and (literals[1] is None or not np.all(literals[1])):
        raise Decline("an integer divisor made at run time may be zero, of which it could not tell")


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 10, (3, 4)).astype(np.float32)
    y = random.normal(0, 10, 4).astype(np.float32)
    i = random.integers(1, 50, (2, 3), np.int32)
    return [
        (x, y),
        (y, x),
        (x, np.float32(2.5)),
        (x, 3),
        (0.1, x),
        (x, x[:, :1]),
        (x[0, 0], y),
        (x.astype(np.float64), 7.25),
        (i, 7),
        (i, np.int32(5)),
        (-i.astype(np.int64), 3),
        (i.astype(np.uint8), 200),
        (x.astype(np.float16), x.astype(np.float16)),
        (x, (0.5, 0.25, 2.0, 1.0)),
        (2, 0.5),
        (7, 2),
    ]


def string_samples(random: np.random.Generator) -> Sequence[Sample]:
    words = np.array(["ab", "", "ç"], object)
    return [*samples(random), (words, words[::-1].copy()), (words, "-"), ("a", "b")]


def unary_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 10, (3, 4)).astype(np.float32)
    return [(x,), (x[0, 0],), (x.astype(np.int32),), (x.astype(np.float64),), (np.float32(0),)]


OPS = (
    Op(
        name="math.add",
        summary="Adds, or joins strings: `a + b`.",
        params=PARAMS,
        results=("sum",),
        types=same_type(NAMES, adds, "numbers or strings"),
        reference=function(np.add),
        lowering=elementwise("Add", ARITHMETIC),
        example="y = x + 1",
        kernel=Kernel("{0} + {1}", wraps=True),
        samples=string_samples,
    ),
    Op(
        name="math.sub",
        summary="Subtracts: `a - b`.",
        params=PARAMS,
        results=("difference",),
        types=same_type(NAMES, is_number, "numbers"),
        reference=function(np.subtract),
        lowering=elementwise("Sub", ARITHMETIC),
        example="y = x - 1",
        kernel=Kernel("{0} - {1}", wraps=True),
        samples=samples,
    ),
    Op(
        name="math.mul",
        summary="Multiplies element by element: `a * b`.",
        params=PARAMS,
        results=("product",),
        types=same_type(NAMES, is_number, "numbers"),
        reference=function(np.multiply),
        lowering=elementwise("Mul", ARITHMETIC),
        example="y = x * 2",
        kernel=Kernel("{0} * {1}", wraps=True),
        samples=samples,
    ),
    Op(
        name="math.div",
        summary="Divides: `a / b`. Integers are rounded towards zero; dividing one by zero fails.",
        params=PARAMS,
        results=("quotient",),
        types=same_type(NAMES, is_number, "numbers"),
        reference=function(divide),
        lowering=lower_divide,
        example="y = x / 255",
        kernel=Kernel("quotient({0}, {1})", requires=known_divisor),
        samples=samples,
    ),
    Op(
        name="math.mod",
        summary="Gives the remainder of `a / b`, with the sign of `a`: `a % b`.",
        params=PARAMS,
        results=("remainder",),
        types=same_type(NAMES, is_number, "numbers"),
        reference=function(remainder),
        lowering=lower_remainder,
        example="y = n % 32",
        kernel=Kernel("left_over({0}, {1})", requires=known_divisor),
        samples=samples,
    ),
    Op(
        name="math.neg",
        summary="Changes the sign: `-x`.",
        params=(Param("x", "Signed numbers."),),
        results=("y",),
        types=same_type(("x",), is_signed, "signed numbers"),
        reference=function(np.negative),
        lowering=elementwise("Neg", ARITHMETIC),
        example="y = -x",
        kernel=Kernel("-{0}", wraps=True),
        samples=unary_samples,
    ),
)
