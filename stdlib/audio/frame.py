"""Frames of samples, overlapping or not."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...dsl.dims import Dims
from ...dsl.types import Dim, DimArith, TensorType, Type
from ..constants import constant_integer
from ..lowering import MOVABLE, require, tensor_type
from ..op import Argument, Array, Decline, Emitter, Item, Op, Operand, OpTypeError, Param, Sample
from ..rules import number, ranked
from ..values import array, integer


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = ranked(number(arguments[0], "audio", dims), "audio", 1, form="samples [n]")
    size, hop = (
        constant_integer(argument, name)
        for argument, name in zip(arguments[1:], ("size", "hop"), strict=True)
    )
    for value, name in ((size, "size"), (hop, "hop")):
        if value < 1:
            raise OpTypeError(name, f"at least 1, not {value}")
    whole = dims.resolve(found.dims[0])
    count: Dim = dims.fresh("t")
    if isinstance(whole, int):
        count = frames_in(whole, size, hop)
    elif size == hop:
        count = dims.resolve(DimArith("/", whole, size))
    return (TensorType(found.dtype, (count, size)),)


def frames_in(whole: int, size: int, hop: int) -> int:
    return max(0, (whole - size) // hop + 1)


def reference(audio: Item, size: int, hop: int) -> Array:
    samples, length, step = array(audio), integer(size), integer(hop)
    return np.take(samples, places(len(samples), length, step))


def places(whole: int, size: int, hop: int) -> NDArray[np.int64]:
    """Return which sample stands where in the frames."""
    first = np.arange(frames_in(whole, size, hop), dtype=np.int64) * hop
    return first[:, None] + np.arange(size, dtype=np.int64)


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    audio, size, hop = operands
    found = tensor_type(audio.type)
    require(found.dtype, MOVABLE, "Gather")
    whole = found.dims[0]
    length, step = integer(size.literal), integer(hop.literal)
    if not isinstance(whole, int):
        raise Decline(f"the number of samples {whole} is not known when compiling")
    order = emit.constant(places(whole, length, step))
    return emit.node("Gather", [emit.tensor(audio), order], axis=emit.axis(0, 1))


def samples(random: np.random.Generator) -> Sequence[Sample]:
    sound = random.uniform(-1, 1, 50).astype(np.float32)
    return [
        (sound, 10, 4),
        (sound, 16, 16),
        (sound[:5], 10, 4),
        (sound[:3], 2, 1),
        (sound[:0], 3, 3),
        ((sound * 9).astype(np.int16), 20, 5),
    ]


OP = Op(
    name="audio.frame",
    summary="Cuts samples into frames of one size, one every `hop` samples; samples at the end "
    "that do not fill a frame are left out.",
    params=(
        Param("audio", "Samples [n] of any numbers."),
        Param("size", "Samples in a frame.", constant=True),
        Param("hop", "Samples from the start of one to that of the next.", constant=True),
    ),
    results=("frames",),
    types=types,
    reference=reference,
    lowering=lower,
    example="frames = audio.frame(sound, 400, 160)",
    samples=samples,
)
