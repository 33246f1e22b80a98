"""Real functions of one element: exp, log, sqrt, tanh, sigmoid; and rounding and abs."""

from collections.abc import Sequence

import numpy as np

from ..elementwise import Function, float_function, function, is_float, is_number, same_type
from ..lowering import ARITHMETIC, FLOATS, elementwise
from ..op import Array, Op, Param, Sample


def sigmoid(x: Array) -> Array:
    one = x.dtype.type(1)
    return np.divide(one, np.add(one, np.exp(np.negative(x))))


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 3, (3, 4)).astype(np.float32)
    halves = np.array([-2.5, -0.5, 0.0, 0.5, 1.5, np.inf, np.nan], np.float32)
    return [(x,), (x[0, 0],), (halves,), (x.astype(np.float64),), (x.astype(np.float16),), (2,)]


def number_samples(random: np.random.Generator) -> Sequence[Sample]:
    integers = random.integers(-100, 100, (2, 3))
    return [*samples(random), (integers.astype(np.int32),), (integers.astype(np.uint8),)]


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
        samples=samples,
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
