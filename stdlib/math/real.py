"""Real functions of one element: powers and logarithms, tanh, sigmoid; rounding, abs and sign."""

from collections.abc import Sequence

import numpy as np

from ...dsl.types import Type
from ..dtypes import to_numpy
from ..elementwise import Function, float_function, function, is_float, is_number, same_type
from ..lowering import ARITHMETIC, FLOATS, elementwise, require, tensor_type
from ..op import Emitter, Kernel, Lowering, Op, Operand, Param, Sample
from ..real import SIGMOID, real_samples, sigmoid


def number_samples(random: np.random.Generator) -> Sequence[Sample]:
    integers = random.integers(-100, 100, (2, 3))
    return [*real_samples(random), (integers.astype(np.int32),), (integers.astype(np.uint8),)]


def lower_trunc(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    dtype = tensor_type(operands[0].type).dtype
    require(dtype, FLOATS, "Floor")
    x = emit.tensor(operands[0])
    zero = emit.constant(np.zeros((), to_numpy(dtype)))
    (below,) = emit.node("Less", [x, zero])
    return emit.node("Where", [below, *emit.node("Ceil", [x]), *emit.node("Floor", [x])])


def real(
    name: str,
    lowering: "Lowering | None",
    apply: Function,
    summary: str,
    exact: bool = False,
    expression: str = "",
) -> Op:
    return Op(
        name=f"math.{name}",
        summary=summary,
        params=(Param("x", "Floating-point numbers."),),
        results=("y",),
        types=same_type(("x",), is_float, "floating-point numbers"),
        reference=float_function(apply),
        lowering=lowering,
        exact=exact,
        example=f"y = math.{name}(x)",
        kernel=Kernel(expression or f"real_{name}({{0}})", exact=exact),
        samples=real_samples,
    )


OPS = (
    Op(
        name="math.abs",
        summary="Gives the absolute value.",
        params=(Param("x", "Numbers."),),
        results=("y",),
        types=same_type(("x",), is_number, "numbers"),
        reference=function(np.abs),
        lowering=elementwise("Abs", ARITHMETIC),
        example="y = math.abs(x)",
        kernel=Kernel("magnitude({0})"),
        samples=number_samples,
    ),
    Op(
        name="math.sign",
        summary="Gives -1, 0 or 1; NaN stays NaN.",
        params=(Param("x", "Numbers."),),
        results=("y",),
        types=same_type(("x",), is_number, "numbers"),
        reference=function(np.sign),
        lowering=elementwise("Sign", ARITHMETIC),
        example="y = math.sign(x)",
        kernel=Kernel("sign_of({0})"),
        samples=number_samples,
    ),
    real("exp", elementwise("Exp", FLOATS), np.exp, "Raises e to the power x."),
    real("expm1", None, np.expm1, "Gives exp(x) - 1, precise near 0."),
    real("log", elementwise("Log", FLOATS), np.log, "Gives the natural logarithm; NaN below 0."),
    real("log1p", None, np.log1p, "Gives log(1 + x), precise near 0; NaN below -1."),
    real("log2", None, np.log2, "Gives the logarithm of base 2; NaN below 0."),
    real("log10", None, np.log10, "Gives the logarithm of base 10; NaN below 0."),
    real("sqrt", elementwise("Sqrt", FLOATS), np.sqrt, "Gives the square root; NaN below 0.", True),
    real("tanh", elementwise("Tanh", FLOATS), np.tanh, "Gives the hyperbolic tangent."),
    real(
        "sigmoid",
        elementwise("Sigmoid", FLOATS),
        sigmoid,
        "Gives 1 / (1 + exp(-x)).",
        expression=SIGMOID,
    ),
    real(
        "round",
        elementwise("Round", FLOATS),
        np.round,
        "Rounds to the nearest integer, halves to even.",
        True,
        "real_rint({0})",
    ),
    real("floor", elementwise("Floor", FLOATS), np.floor, "Rounds down.", True),
    real("ceil", elementwise("Ceil", FLOATS), np.ceil, "Rounds up.", True),
    real("trunc", lower_trunc, np.trunc, "Rounds towards zero.", True),
)
