"""Which numbers are none: NaN and the infinities."""

from collections.abc import Sequence

import numpy as np

from ...dsl.types import DType, Type
from ..elementwise import Function, float_function, is_float, same_type
from ..lowering import FLOATS, require, tensor_type
from ..op import Emitter, Kernel, Lowering, Op, Operand, Param
from ..real import real_samples


def lower_is(op_type: str) -> Lowering:
    def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
        require(tensor_type(operands[0].type).dtype, FLOATS, op_type)
        return emit.node(op_type, [emit.tensor(operands[0])])

    return lower


def lower_is_finite(
    emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]
) -> tuple[str, ...]:
    require(tensor_type(operands[0].type).dtype, FLOATS, "IsInf")
    x = emit.tensor(operands[0])
    return emit.node("Not", emit.node("Or", [*emit.node("IsNaN", [x]), *emit.node("IsInf", [x])]))


def kind(name: str, test: str, lowering: Lowering, apply: Function, summary: str) -> Op:
    return Op(
        name=f"math.{name}",
        summary=summary,
        params=(Param("x", "Floating-point numbers."),),
        results=("holds",),
        types=same_type(("x",), is_float, "floating-point numbers", DType.BOOL),
        reference=float_function(apply),
        lowering=lowering,
        example=f"bad = math.{name}(x)",
        kernel=Kernel(test, tells=True),
        samples=real_samples,
    )


OPS = (
    kind("is_nan", "{0} != {0}", lower_is("IsNaN"), np.isnan, "Says which are NaN."),
    kind(
        "is_inf",
        "{0} == {0} && !is_finite({0})",
        lower_is("IsInf"),
        np.isinf,
        "Says which are infinite, of either sign.",
    ),
    kind(
        "is_finite",
        "is_finite({0})",
        lower_is_finite,
        np.isfinite,
        "Says which are neither NaN nor infinite.",
    ),
)
