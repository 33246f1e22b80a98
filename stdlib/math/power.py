"""Raising to a power."""

from collections.abc import Sequence

import numpy as np

from ...dsl.types import DType
from ..elementwise import function, is_number, same_type
from ..lowering import FLOATS, elementwise
from ..op import Array, Decline, Kernel, Op, Param, Sample


def power(base: Array, exponent: Array) -> Array:
    if base.dtype.kind in "iu" and np.any(np.less(exponent, 0)):
        raise ValueError("an integer has no negative power; cast it to a floating-point dtype")
    if base.dtype.kind in "iu":
        return np.power(base, exponent)
    # NumPy takes the square root for a power of one half, which is NaN of minus infinity.
    rooted = np.equal(base, -np.inf) & np.equal(exponent, 0.5)
    return np.where(rooted, base.dtype.type(np.inf), np.power(base, exponent))


def reals(dtype: DType, _: "Sequence[Array | None]") -> None:
    if dtype.is_integer:
        raise Decline("powers of integers may be negative, of which it could not tell")


def samples(random: np.random.Generator) -> Sequence[Sample]:
    x = np.abs(random.normal(0, 3, (3, 4))).astype(np.float32)
    return [
        (x, 2),
        (x, 0.5),
        (x, x[0]),
        (x[0, 0], x),
        (2, x),
        (x.astype(np.float64), 1.5),
        (random.integers(0, 9, 4).astype(np.int32), 2),
    ]


OP = Op(
    name="math.pow",
    summary="Raises to a power; integers only to powers of at least 0.",
    params=(Param("base", "Numbers."), Param("exponent", "Numbers of the same dtype.")),
    results=("power",),
    types=same_type(("base", "exponent"), is_number, "numbers"),
    reference=function(power),
    lowering=elementwise("Pow", FLOATS),
    exact=False,
    example="y = math.pow(x, 2)",
    kernel=Kernel("real_pow({0}, {1})", exact=False, requires=reals),
    samples=samples,
)
