"""Samples as integers or floating point, and how loud they are."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import axis as constant_axis
from ..dtypes import to_onnx
from ..lowering import mean, tensor_type
from ..op import Argument, Array, Emitter, Item, Op, Operand, Param, Sample
from ..rules import of_dtype
from ..values import array, integer

STEPS = 32768
"""Of a 16-bit sample from 0 to full scale."""


def from_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "samples", dims, DType.I16)
    return (TensorType(DType.F32, found.dims),)


def from_i16(samples: Item) -> Array:
    return np.divide(array(samples).astype(np.float32), np.float32(STEPS))


def lower_from(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    (x,) = emit.node("Cast", [emit.tensor(operands[0])], to=to_onnx(DType.F32))
    return emit.node("Div", [x, emit.constant(np.array(STEPS, np.float32))])


def to_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "audio", dims, DType.F32)
    return (TensorType(DType.I16, found.dims),)


def to_i16(audio: Item) -> Array:
    with np.errstate(all="ignore"):
        scaled = np.round(np.multiply(array(audio), np.float32(STEPS)))
    bounded = np.clip(scaled, -STEPS, STEPS - 1)
    return np.where(np.isnan(bounded), np.float32(0), bounded).astype(np.int16)


def lower_to(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    def number(value: int) -> str:
        return emit.constant(np.array(value, np.float32))

    (scaled,) = emit.node("Mul", [emit.tensor(operands[0]), number(STEPS)])
    bounded = emit.node("Clip", [*emit.node("Round", [scaled]), number(-STEPS), number(STEPS - 1)])
    (known,) = emit.node("Where", [*emit.node("IsNaN", [scaled]), number(0), *bounded])
    return emit.node("Cast", [known], to=to_onnx(DType.I16))


def rms_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "audio", dims, DType.F32)
    place = constant_axis(arguments[1], "axis", found)
    return (TensorType(DType.F32, (*found.dims[:place], *found.dims[place + 1 :])),)


def rms(audio: Item, axis: int) -> Array:
    samples, along = array(audio), integer(axis)
    with np.errstate(all="ignore"):
        squares = np.add.reduce(np.square(samples), axis=along)
        return np.asarray(np.sqrt(np.divide(squares, np.float32(samples.shape[along]))))


def lower_rms(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    x = emit.tensor(operands[0])
    (squares,) = emit.node("Mul", [x, x])
    found = tensor_type(operands[0].type)
    return emit.node("Sqrt", mean(emit, squares, found, [integer(operands[1].literal)], False))


def from_samples(random: np.random.Generator) -> Sequence[Sample]:
    samples = random.integers(-32768, 32768, (3, 4)).astype(np.int16)
    return [(samples,), (samples[0],), (samples[:0],)]


def to_samples(random: np.random.Generator) -> Sequence[Sample]:
    samples = random.normal(0, 1, (3, 40)).astype(np.float32)
    edges = np.array([1, -1, np.nan, np.inf, -np.inf, 0.5 / STEPS, 1.5 / STEPS], np.float32)
    return [(samples,), (edges,), (samples[:0],)]


def rms_samples(random: np.random.Generator) -> Sequence[Sample]:
    samples = random.normal(0, 1, (3, 40)).astype(np.float32)
    return [(samples,), (samples, 0), (samples[0],), (samples[:0],)]


OPS = (
    Op(
        name="audio.from_i16",
        summary="Makes 16-bit samples floating point, from -1 up to 1: divided by 32768.",
        params=(Param("samples", "16-bit samples."),),
        results=("audio",),
        types=from_types,
        reference=from_i16,
        lowering=lower_from,
        example="sound = audio.from_i16(pcm)",
        samples=from_samples,
    ),
    Op(
        name="audio.to_i16",
        summary="Makes 16-bit samples: times 32768, rounded, cut to what 16 bits hold; NaN is 0.",
        params=(Param("audio", "Samples from -1 to 1."),),
        results=("samples",),
        types=to_types,
        reference=to_i16,
        lowering=lower_to,
        example="pcm16 = audio.to_i16(sound)",
        samples=to_samples,
    ),
    Op(
        name="audio.rms",
        summary="Gives the loudness along an axis: the root of mean squares; of nothing NaN.",
        params=(
            Param("audio", "Samples, or frames of them."),
            Param("axis", "The axis of the samples.", True, has_default=True, default=-1),
        ),
        results=("level",),
        types=rms_types,
        reference=rms,
        lowering=lower_rms,
        exact=False,
        example="loud = audio.rms(audio.frame(sound, 400, 160)) > 0.01",
        samples=rms_samples,
    ),
)
