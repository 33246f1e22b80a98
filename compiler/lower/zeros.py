"""`zeros` where a type is written beside it, as in `state h: f32[2, 128] = zeros`.

So it may stand where a state, a carried value of a loop, a constant or a parameter gets what it
holds at first. Everywhere else `zeros` is an op that is told the sizes.
"""

import numpy as np

from ...dsl import ast
from ...dsl.types import DimVar, DType, OptionalType, TensorType, Type
from ...stdlib.dtypes import to_numpy
from ..dimensions import type_dims
from .operands import Known
from .problems import Problems

ZEROS = "zeros"


def is_zeros(expr: ast.Expr | None) -> bool:
    return isinstance(expr, ast.Name) and expr.text == ZEROS


def zeros_of(expr: ast.Expr, type: Type, name: str, code: str, problems: Problems) -> Known | None:
    """Return the zeros of a type; None, and a mistake with `code`, for one without known sizes."""
    bare = type.item if isinstance(type, OptionalType) else type
    if isinstance(bare, TensorType) and (bare.dtype.is_number or bare.dtype is DType.BOOL):
        sizes = tuple(dim for dim in bare.dims if isinstance(dim, int))
        if len(sizes) == len(bare.dims):
            return Known(np.zeros(sizes, to_numpy(bare.dtype)), bare)
    problems.error(
        code,
        f"`zeros` fills a tensor of numbers whose sizes are known, but `{name}` is {type}",
        expr.span,
        help="say how many, as in `zeros(len(x))`"
        if any(isinstance(dim, DimVar) for dim in type_dims(type))
        else "begin with what it holds at first, as `[]`",
    )
    return None
