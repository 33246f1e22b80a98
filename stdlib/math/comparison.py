"""The operators == != < <= > >=."""

from collections.abc import Sequence

import numpy as np

from ...dsl.types import DType, Type
from ..elementwise import Function, function, same_type
from ..lowering import ARITHMETIC, aligned, elementwise, operand_dtype, require, tensor_type
from ..op import Emitter, Kernel, Lowering, Op, Operand, Param, Sample

NAMES = ("left", "right")
PARAMS = (Param("left", "The left side."), Param("right", "The right side."))
EQUATABLE = ARITHMETIC | {DType.BOOL}


def has_equality(_: DType) -> bool:
    return True


def has_order(dtype: DType) -> bool:
    return dtype.is_number or dtype is DType.STRING


def as_bool(compare: Function) -> Function:
    def compared(left: object, right: object) -> object:
        return np.asarray(compare(left, right), np.bool_)

    return compared


def lower_ne(
    emit: Emitter, operands: Sequence[Operand], results: Sequence[Type]
) -> tuple[str, ...]:
    dtype = operand_dtype(operands)
    require(dtype, EQUATABLE, "Equal")
    rank = len(tensor_type(results[0]).dims)
    equal = emit.node("Equal", [aligned(emit, one, rank, dtype) for one in operands])
    return emit.node("Not", equal)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.integers(-2, 3, (3, 4)).astype(np.float32)
    y = random.integers(-2, 3, 4).astype(np.float32)
    x[0, 0] = np.nan
    words = np.array(["a", "b", ""], object)
    return [
        (x, y),
        (y[:1], x),
        (x, 0),
        (x[0, 1], 0.5),
        (x.astype(np.float64), 1.0),
        (y.astype(np.int32), 1),
        (1, y.astype(np.int64)),
        (y.astype(np.int8), y.astype(np.int8)),
        (words, "b"),
        ("a", "b"),
        (words, words),
    ]


def equality_samples(random: np.random.Generator) -> Sequence[Sample]:
    flags = random.integers(0, 2, (2, 3)).astype(np.bool_)
    return [*samples(random), (flags, flags[0]), (flags, True), (b"\x00\xff", b"\x00")]


def comparison(name: str, sign: str, apply: Function, lowering: Lowering, summary: str) -> Op:
    equality = sign in ("==", "!=")
    accepts = has_equality if equality else has_order
    wants = "values" if equality else "numbers or strings"
    return Op(
        name=f"math.{name}",
        summary=f"{summary}: `a {sign} b`.",
        params=PARAMS,
        results=("holds",),
        types=same_type(NAMES, accepts, wants, DType.BOOL),
        reference=function(as_bool(apply)),
        lowering=lowering,
        example=f"y = x {sign} 0",
        kernel=Kernel(f"{{0}} {sign} {{1}}", tells=True),
        samples=equality_samples if equality else samples,
    )


OPS = (
    comparison("eq", "==", np.equal, elementwise("Equal", EQUATABLE), "Says which are equal"),
    comparison("ne", "!=", np.not_equal, lower_ne, "Says which differ"),
    comparison("lt", "<", np.less, elementwise("Less", ARITHMETIC), "Says which are less"),
    comparison(
        "le", "<=", np.less_equal, elementwise("LessOrEqual", ARITHMETIC), "Says which are at most"
    ),
    comparison("gt", ">", np.greater, elementwise("Greater", ARITHMETIC), "Says which are greater"),
    comparison(
        "ge",
        ">=",
        np.greater_equal,
        elementwise("GreaterOrEqual", ARITHMETIC),
        "Says which are at least",
    ),
)
