"""Weights of windows."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_bool, constant_choice, constant_integer
from ..op import Argument, Array, Op, OpTypeError, Param, Sample
from ..sound import WINDOWS
from ..sound import window as weights
from ..values import integer


def window_types(arguments: Sequence[Argument], _: Dims) -> tuple[Type, ...]:
    constant_choice(arguments[0], "kind", WINDOWS)
    size = constant_integer(arguments[1], "size")
    if size < 1:
        raise OpTypeError("size", f"at least 1, not {size}")
    constant_bool(arguments[2], "periodic")
    return (TensorType(DType.F32, (size,)),)


def window(kind: str, size: int, periodic: bool) -> Array:
    return weights(kind, integer(size), periodic).astype(np.float32)


def window_samples(_: np.random.Generator) -> Sequence[Sample]:
    return [(kind, 8, periodic) for kind in WINDOWS for periodic in (True, False)] + [("hann", 1)]


OP = Op(
    name="audio.window",
    summary="Gives the weights of a window.",
    params=(
        Param("kind", '"hann", "hamming", "blackman" or "rectangular".', constant=True),
        Param("size", "How many weights.", constant=True),
        Param(
            "periodic",
            "Leave out the last weight of the symmetric window that is one longer.",
            constant=True,
            has_default=True,
            default=True,
        ),
    ),
    results=("weights",),
    types=window_types,
    reference=window,
    example='w = audio.window("hann", 400)',
    samples=window_samples,
)
