"""Frames to spectra: the short-time Fourier transform."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_choice, constant_integer
from ..lowering import rank, unsqueeze
from ..op import Argument, Array, Emitter, Item, Literal, Op, Operand, OpTypeError, Param, Sample
from ..rules import of_dtype, ranked
from ..sound import WINDOWS
from ..sound import window as weights
from ..values import array
from ..values import integers as literals

FRAMES = Param("frames", "Frames of samples, f32[t, size], as `audio.frame` cuts them.")
WINDOW = Param(
    "window",
    'What frames are weighted with: "hann", "hamming", "blackman" or "rectangular", periodic.',
    constant=True,
    has_default=True,
    default="hann",
)


def stft_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found, size = framed(arguments[0], arguments[1], dims)
    bins = length_of(arguments[2], size) // 2 + 1
    return (TensorType(DType.F32, (found.dims[0], bins, 2)),)


def power_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found, size = framed(arguments[0], arguments[1], dims)
    bins = length_of(arguments[2], size) // 2 + 1
    return (TensorType(DType.F32, (found.dims[0], bins)),)


def framed(frames: Argument, window: Argument, dims: Dims) -> tuple[TensorType, int]:
    found = ranked(of_dtype(frames, "frames", dims, DType.F32), "frames", 2, form="f32[t, size]")
    constant_choice(window, "window", WINDOWS)
    size = dims.resolve(found.dims[1])
    if not isinstance(size, int) or size < 1:
        raise OpTypeError("frames", f"frames of a known size, not {found}")
    return found, size


def length_of(argument: Argument, size: int) -> int:
    """Return the length of the transform: that of a frame, or more."""
    if argument.literal is None:
        return size
    length = constant_integer(argument, "length")
    if length < size:
        raise OpTypeError("length", f"at least the size of a frame, {size}, not {length}")
    return length


def spectra(frames: Item, window: str, length: Literal) -> NDArray[np.complex128]:
    samples = np.asarray(array(frames), np.float64)
    size = samples.shape[1]
    count = size if length is None else literals(length)[0]
    with np.errstate(all="ignore"):
        return np.fft.rfft(samples * weights(window, size, periodic=True), count, axis=1)


def stft(frames: Item, window: str, length: Literal) -> Array:
    found = spectra(frames, window, length)
    with np.errstate(all="ignore"):
        # The transform leaves 0 there whatever the samples are.
        imaginary = np.where(np.isnan(found.real), np.nan, found.imag)
        return np.stack([found.real, imaginary], axis=-1).astype(np.float32)


def power(frames: Item, window: str, length: Literal) -> Array:
    found = spectra(frames, window, length)
    with np.errstate(all="ignore"):
        return (np.square(found.real) + np.square(found.imag)).astype(np.float32)


def parts(emit: Emitter, operands: Sequence[Operand]) -> tuple[str, str]:
    """Write the real and imaginary parts as products with weighted cosines and sines."""
    frames, window, length = operands
    size = frames_size(frames)
    count = size if length.literal is None else literals(length.literal)[0]
    turns = np.outer(np.arange(size), np.arange(count // 2 + 1)) % count * (2 * np.pi / count)
    shape = weights(str(window.literal), size, periodic=True)[:, None]
    x = emit.tensor(frames)
    (real,) = emit.node("MatMul", [x, emit.constant((shape * np.cos(turns)).astype(np.float32))])
    (imag,) = emit.node("MatMul", [x, emit.constant((shape * -np.sin(turns)).astype(np.float32))])
    return real, imag


def frames_size(frames: Operand) -> int:
    assert isinstance(frames.type, TensorType)
    size = frames.type.dims[1]
    assert isinstance(size, int), "the shape rule wants a known size"
    return size


def lower_stft(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    place = rank(operands[0]) + int(operands[0].batched)
    both = [unsqueeze(emit, part, [place]) for part in parts(emit, operands)]
    return emit.node("Concat", both, axis=place)


def lower_power(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    squares = [emit.node("Mul", [part, part])[0] for part in parts(emit, operands)]
    return emit.node("Add", squares)


def frame_samples(random: np.random.Generator) -> Sequence[Sample]:
    frames = random.uniform(-1, 1, (3, 20)).astype(np.float32)
    small = random.uniform(-1, 1, (3, 4)).astype(np.float32)
    return [
        (frames,),
        (frames, "hamming", 32),
        (frames[:, :15], "rectangular"),
        (frames[:0], "blackman"),
        (small,),
    ]


OPS = (
    Op(
        name="audio.stft",
        summary="Gives the Fourier transform of each weighted frame, computed in f64: "
        "f32[t, length / 2 + 1, 2] with the real and the imaginary part.",
        params=(
            FRAMES,
            WINDOW,
            Param("length", "Zeros are added up to it.", constant=True, has_default=True),
        ),
        results=("spectrum",),
        types=stft_types,
        reference=stft,
        lowering=lower_stft,
        exact=False,
        tolerance=1e-5,
        example="spectrum = audio.stft(audio.frame(sound, 400, 160), length = 512)",
        samples=frame_samples,
    ),
    Op(
        name="audio.power",
        summary="Gives the power of each frequency in each weighted frame: the squared magnitude "
        "of `audio.stft`, f32[t, length / 2 + 1].",
        params=(
            FRAMES,
            WINDOW,
            Param("length", "Zeros are added up to it.", constant=True, has_default=True),
        ),
        results=("power",),
        types=power_types,
        reference=power,
        lowering=lower_power,
        exact=False,
        tolerance=1e-5,
        example="power = audio.power(audio.frame(sound, 400, 160), length = 512)",
        samples=frame_samples,
    ),
)
