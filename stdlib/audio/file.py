"""From the bytes of a sound file to samples, and back."""

from collections.abc import Sequence
from io import BytesIO

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import Dim, DType, TensorType, Type
from ..constants import constant_bool, constant_choice
from ..op import Argument, Array, Item, Literal, Op, Param, Sample
from ..rules import of_dtype, ranked, scalar, scalar_integer
from ..sound import soundfile
from ..values import array, integer

FORMATS = ("wav", "flac", "ogg")


def decode_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    of_dtype(arguments[0], "data", dims, DType.BYTES)
    channels: tuple[Dim, ...] = () if constant_bool(arguments[1], "mono") else (dims.fresh("c"),)
    scalar_integer(arguments[2], "max_samples", dims)
    return TensorType(DType.F32, (dims.fresh("n"), *channels)), TensorType(DType.I64)


def decode(data: bytes, mono: bool, max_samples: "Item | Literal") -> tuple[Array, Array]:
    library = soundfile()
    if not data:
        raise ValueError("the sound is empty: 0 bytes")
    most = integer(max_samples)
    try:
        with library.SoundFile(BytesIO(data)) as file:
            # Read no more than is allowed: a header may promise anything.
            samples = file.read(most // file.channels + 1, dtype="float32", always_2d=True)
            rate = file.samplerate
    except library.LibsndfileError as error:
        raise ValueError(f"the sound cannot be decoded: {error.error_string}") from error
    if samples.size > most:
        raise ValueError(f"the sound has more than the {most} samples allowed")
    if mono:
        samples = np.asarray(np.mean(samples, axis=1, dtype=np.float32))
    return samples, np.asarray(rate, np.int64)


def encode_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "audio", dims, DType.F32)
    ranked(found, "audio", 1, 2, form="f32[n] or f32[n, c]")
    scalar_integer(arguments[1], "rate", dims)
    constant_choice(arguments[2], "format", FORMATS)
    return scalar(DType.BYTES)


def encode(audio: Item, rate: "Item | Literal", format: str) -> bytes:
    library = soundfile()
    samples, speed = array(audio), integer(rate)
    if speed < 1:
        raise ValueError(f"a rate of {speed} samples a second is none")
    if samples.ndim == 2 and samples.shape[1] == 0:
        raise ValueError(f"a sound of shape {list(samples.shape)} has no channels")
    content = BytesIO()
    try:
        library.write(content, np.clip(samples, -1, 1), speed, format=format.upper())
    except library.LibsndfileError as error:
        raise ValueError(f"the sound cannot be written: {error.error_string}") from error
    return content.getvalue()


def decode_samples(random: np.random.Generator) -> Sequence[Sample]:
    sound = random.uniform(-1, 1, (40, 2)).astype(np.float32)
    return [
        (encode(sound, 16000, "wav"),),
        (encode(sound, 8000, "flac"), False),
        (encode(sound[:, 0], 44100, "wav"), True, 40),
        (encode(sound[:0, 0], 16000, "wav"),),
    ]


def encode_samples(random: np.random.Generator) -> Sequence[Sample]:
    sound = random.uniform(-2, 2, (40, 2)).astype(np.float32)
    return [(sound, 16000), (sound[:, 0], np.array(8000), "flac"), (sound[:0, 0], 8000)]


OPS = (
    Op(
        name="audio.decode",
        summary="Decodes WAV, FLAC, OGG, MP3, AIFF and what else libsndfile reads to samples from "
        "-1 to 1 and their rate. Several channels are averaged unless `mono` is false.",
        params=(
            Param("data", "The bytes of a sound file."),
            Param("mono", "Give one channel [n], not [n, c].", True, True, default=True),
            Param(
                "max_samples",
                "The most samples of all channels that are unpacked; more are an error.",
                has_default=True,
                default=200_000_000,
            ),
        ),
        results=("audio", "rate"),
        types=decode_types,
        reference=decode,
        example="sound, rate = audio.decode(recording)",
        samples=decode_samples,
    ),
    Op(
        name="audio.encode",
        summary="Encodes samples as 16-bit WAV or FLAC, or as OGG; beyond -1 to 1 they are cut.",
        params=(
            Param("audio", "Samples f32[n], or f32[n, c]."),
            Param("rate", "Samples a second."),
            Param("format", '"wav", "flac" or "ogg".', True, has_default=True, default="wav"),
        ),
        results=("data",),
        types=encode_types,
        reference=encode,
        example="file = audio.encode(sound, 16000)",
        samples=encode_samples,
    ),
)
