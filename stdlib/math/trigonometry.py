"""Angles in radians, their functions, and lengths."""

from collections.abc import Collection, Sequence

import numpy as np

from ...dsl.types import DType
from ..elementwise import Function, float_function, is_float, same_type
from ..lowering import FLOATS, elementwise
from ..op import Kernel, Op, Param, Sample
from ..real import real_samples

F32 = frozenset({DType.F32})
FLOATING = "floating-point numbers"


def angle(name: str, op_type: str, allowed: Collection[DType], apply: Function, summary: str) -> Op:
    return Op(
        name=f"math.{name}",
        summary=summary,
        params=(Param("x", "Floating-point numbers."),),
        results=("y",),
        types=same_type(("x",), is_float, FLOATING),
        reference=float_function(apply),
        lowering=elementwise(op_type, allowed),
        exact=False,
        example=f"y = math.{name}(x)",
        kernel=Kernel(f"real_{name}({{0}})", exact=False),
        samples=real_samples,
    )


def pair_samples(random: np.random.Generator) -> Sequence[Sample]:
    x = random.normal(0, 3, (3, 4)).astype(np.float32)
    edges = np.array([0.0, -0.0, np.inf, np.nan], np.float32)
    return [(x, x[0]), (x, 1), (0.5, x), (x[0, 0], edges), (x.astype(np.float64), 2.0), (3, 4)]


OPS = (
    angle("sin", "Sin", FLOATS, np.sin, "Gives the sine of an angle in radians."),
    angle("cos", "Cos", FLOATS, np.cos, "Gives the cosine of an angle in radians."),
    angle("tan", "Tan", F32, np.tan, "Gives the tangent of an angle in radians."),
    angle("asin", "Asin", F32, np.arcsin, "Gives the angle of a sine; NaN beyond -1 to 1."),
    angle("acos", "Acos", F32, np.arccos, "Gives the angle of a cosine; NaN beyond -1 to 1."),
    angle("atan", "Atan", F32, np.arctan, "Gives the angle of a tangent, -pi/2 to pi/2."),
    Op(
        name="math.atan2",
        summary="Gives the angle of the direction (x, y), from -pi to pi.",
        params=(Param("y", "Up."), Param("x", "To the right.")),
        results=("angle",),
        types=same_type(("y", "x"), is_float, FLOATING),
        reference=float_function(np.arctan2),
        example="tilt = math.atan2(box[1, 1] - box[0, 1], box[1, 0] - box[0, 0])",
        kernel=Kernel("real_atan2({0}, {1})", exact=False),
        samples=pair_samples,
    ),
    Op(
        name="math.hypot",
        summary="Gives the length of (x, y), also where squares would overflow.",
        params=(Param("x", "One side."), Param("y", "The other side.")),
        results=("length",),
        types=same_type(("x", "y"), is_float, FLOATING),
        reference=float_function(np.hypot),
        example="side = math.hypot(box[1, 0] - box[0, 0], box[1, 1] - box[0, 1])",
        kernel=Kernel("real_hypot({0}, {1})", exact=False),
        samples=pair_samples,
    ),
)
