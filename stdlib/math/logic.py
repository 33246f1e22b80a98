"""The operators `and`, `or`, `not` on bools; both sides are computed."""

from collections.abc import Sequence

import numpy as np

from ...dsl.types import DType
from ..elementwise import function, is_bool, same_type
from ..lowering import elementwise
from ..op import Kernel, Op, Param, Sample

NAMES = ("left", "right")
PARAMS = (Param("left", "The left side."), Param("right", "The right side."))
BOOL = frozenset({DType.BOOL})


def samples(random: np.random.Generator) -> Sequence[Sample]:
    flags = random.integers(0, 2, (3, 4)).astype(np.bool_)
    return [(flags, flags[0]), (flags[0, 0], flags), (flags, True), (False, flags), (True, False)]


def unary_samples(random: np.random.Generator) -> Sequence[Sample]:
    flags = random.integers(0, 2, (3, 4)).astype(np.bool_)
    return [(flags,), (flags[0, 0],)]


OPS = (
    Op(
        name="math.and",
        summary="True where both sides are: `a and b`. Both are computed.",
        params=PARAMS,
        results=("holds",),
        types=same_type(NAMES, is_bool, "bools"),
        reference=function(np.logical_and),
        lowering=elementwise("And", BOOL),
        example="keep = wide and tall",
        kernel=Kernel("{0} && {1}"),
        samples=samples,
    ),
    Op(
        name="math.or",
        summary="True where either side is: `a or b`. Both are computed.",
        params=PARAMS,
        results=("holds",),
        types=same_type(NAMES, is_bool, "bools"),
        reference=function(np.logical_or),
        lowering=elementwise("Or", BOOL),
        example="keep = wide or tall",
        kernel=Kernel("{0} || {1}"),
        samples=samples,
    ),
    Op(
        name="math.not",
        summary="True where `x` is false: `not x`.",
        params=(Param("x", "Bools."),),
        results=("holds",),
        types=same_type(("x",), is_bool, "bools"),
        reference=function(np.logical_not),
        lowering=elementwise("Not", BOOL),
        example="skip = not keep",
        kernel=Kernel("!{0}"),
        samples=unary_samples,
    ),
)
