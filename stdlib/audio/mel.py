"""Bands of frequencies as an ear tells them apart."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_bool, constant_choice, constant_integer
from ..op import Argument, Array, Emitter, Item, Literal, Op, Operand, OpTypeError, Param, Sample
from ..rules import of_dtype, ranked
from ..sound import SCALES, mel_bands
from ..values import array, integer
from ..values import integers as literals


def mel_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = ranked(
        of_dtype(arguments[0], "power", dims, DType.F32), "power", 2, form="f32[t, bins]"
    )
    bins = dims.resolve(found.dims[1])
    if not isinstance(bins, int) or bins < 2:
        raise OpTypeError("power", f"a known number of bins, not {found}")
    rate, bands = constant_integer(arguments[1], "rate"), constant_integer(arguments[2], "bands")
    for value, name in ((rate, "rate"), (bands, "bands")):
        if value < 1:
            raise OpTypeError(name, f"at least 1, not {value}")
    low = hertz(arguments[3], "low", 0.0)
    high = hertz(arguments[4], "high", rate / 2)
    if not 0 <= low < high <= rate / 2:
        raise OpTypeError("high", f"a frequency above {low} and up to {rate / 2}, not {high}")
    constant_choice(arguments[5], "scale", SCALES)
    constant_bool(arguments[6], "area")
    return (TensorType(DType.F32, (found.dims[0], bands)),)


def hertz(argument: Argument, name: str, default: float) -> float:
    literal = argument.literal
    if literal is None:
        return default
    if isinstance(literal, bool) or not isinstance(literal, int | float):
        raise OpTypeError(name, f"a frequency in hertz, not {literal!r}")
    return float(literal)


def bands_of(
    bins: int, rate: int, bands: int, low: float, high: "float | None", scale: str, area: bool
) -> Array:
    top = rate / 2 if high is None else float(high)
    made = mel_bands(bins, integer(rate), integer(bands), float(low), top, scale, area)
    return made.astype(np.float32)


def mel(
    power: Item,
    rate: int,
    bands: int,
    low: float,
    high: "float | None",
    scale: str,
    area: bool,
) -> Array:
    values = np.asarray(array(power), np.float32)
    with np.errstate(all="ignore"):
        return np.matmul(values, bands_of(values.shape[1], rate, bands, low, high, scale, area))


def lower_mel(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    power, *constants = operands
    rate, bands, low, high, scale, area = (one.literal for one in constants)
    assert isinstance(power.type, TensorType)
    bins = power.type.dims[1]
    assert isinstance(bins, int), "the shape rule wants a known size"
    made = bands_of(
        bins,
        literals(rate)[0],
        literals(bands)[0],
        number(low),
        None if high is None else number(high),
        str(scale),
        bool(area),
    )
    return emit.node("MatMul", [emit.tensor(power), emit.constant(made)])


def number(literal: Literal) -> float:
    return float(np.asarray(literal, np.float64))


def mel_samples(random: np.random.Generator) -> Sequence[Sample]:
    power = random.uniform(0, 10, (3, 33)).astype(np.float32)
    return [
        (power, 16000, 8),
        (power, 16000, 5, 100, 4000.0, "htk", False),
        (power[:, :4], 8000, 2),
        (power[:0], 16000, 4),
    ]


OP = Op(
    name="audio.mel",
    summary="Adds up frequencies in triangular bands that are evenly spaced on a mel scale.",
    params=(
        Param("power", "Spectra from 0 to half the rate, f32[t, bins]."),
        Param("rate", "Samples a second.", constant=True),
        Param("bands", "How many bands.", constant=True),
        Param("low", "Where the first band begins, in hertz.", True, True, default=0),
        Param("high", "Where the last ends; half the rate if left out.", True, True),
        Param("scale", '"slaney" or "htk".', True, has_default=True, default="slaney"),
        Param("area", "Give each band the area 1, not the height 1.", True, True, default=True),
    ),
    results=("bands",),
    types=mel_types,
    reference=mel,
    lowering=lower_mel,
    exact=False,
    tolerance=5e-6,
    example="bands = audio.mel(audio.power(audio.frame(sound, 400, 160)), 16000, 40)",
    samples=mel_samples,
)
