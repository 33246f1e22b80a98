"""Another number of samples a second."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..rules import of_dtype, ranked, scalar_integer
from ..sound import soxr
from ..values import array, integer


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "audio", dims, DType.F32)
    ranked(found, "audio", 1, 2, form="f32[n] or f32[n, c]")
    rates = [
        scalar_integer(argument, name, dims)
        for argument, name in zip(arguments[1:], ("old", "new"), strict=True)
    ]
    for rate, name in zip(rates, ("old", "new"), strict=True):
        if rate is not None and rate < 1:
            raise OpTypeError(name, f"at least 1, not {rate}")
    if rates[0] is not None and rates[0] == rates[1]:
        return (found,)
    return (TensorType(DType.F32, (dims.fresh("n"), *found.dims[1:])),)


def reference(audio: Item, old: "Item | Literal", new: "Item | Literal") -> Array:
    samples, before, after = array(audio), integer(old), integer(new)
    if min(before, after) < 1:
        raise ValueError(f"rates of {before} and {after} samples a second cannot be converted")
    if before == after:
        return samples
    if samples.ndim == 2 and samples.shape[1] == 0:
        raise ValueError(f"a sound of shape {list(samples.shape)} has no channels")
    return np.asarray(soxr().resample(np.ascontiguousarray(samples), before, after), np.float32)


def samples(random: np.random.Generator) -> Sequence[Sample]:
    sound = random.uniform(-1, 1, (400, 2)).astype(np.float32)
    return [
        (sound[:, 0], 48000, 16000),
        (sound, 8000, np.array(16000)),
        (sound, 16000, 16000),
        (sound[:0, 0], 8000, 16000),
    ]


OP = Op(
    name="audio.resample",
    summary="Converts from one rate to another with soxr's high quality.",
    params=(
        Param("audio", "Samples f32[n], or f32[n, c]."),
        Param("old", "The rate that they have."),
        Param("new", "The rate wanted."),
    ),
    results=("audio",),
    types=types,
    reference=reference,
    example="sound16k = audio.resample(sound, 44100, 16000)",
    samples=samples,
)
