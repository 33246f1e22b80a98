"""Real functions of one element: exp, log, sqrt, tanh, sigmoid; and rounding and abs."""

from collections.abc import Sequence

import numpy as np

from ..elementwise import Function, float_function, function, is_float, is_number, same_type
from ..lowering import ARITHMETIC, FLOATS, elementwise
from ..op import Op, Param, Sample
from ..real import real_samples, sigmoid


def number_samples(random: np.random.Generator) -> Sequence[Sample]:
    integers = random.integers(-100, 100, (2, 3))
    return [*real_samples(random), (integers.astype(np.int32),), (integers.astype(np.uint8),)]


def real(name: str, op_type: str, apply: Function, summary: str, exact: bool = False) -> Op:
    return Op(
        name=f"math.{name}",
        summary=summary,
        params=(Param("x", "Floating-point numbers."),),
        results=("y",),
        types=same_type(("x",), is_float, "floating-point numbers"),
        reference=float_function(apply),
        lowering=elementwise(op_type, FLOATS),
        exact=exact,
        example=f"y = math.{name}(x)",
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
        samples=number_samples,
    ),
    real("exp", "Exp", np.exp, "Raises e to the power x."),
    real("log", "Log", np.log, "Gives the natural logarithm; NaN below zero."),
    real("sqrt", "Sqrt", np.sqrt, "Gives the square root; NaN below zero.", exact=True),
    real("tanh", "Tanh", np.tanh, "Gives the hyperbolic tangent."),
    real("sigmoid", "Sigmoid", sigmoid, "Gives 1 / (1 + exp(-x))."),
    real("round", "Round", np.round, "Rounds to the nearest integer, halves to even.", exact=True),
    real("floor", "Floor", np.floor, "Rounds down.", exact=True),
    real("ceil", "Ceil", np.ceil, "Rounds up.", exact=True),
)
