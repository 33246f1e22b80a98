"""The libraries behind audio ops, imported when one first runs; windows and mel bands.

Constants of spectra are computed in f64 and rounded once.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
WINDOWS: Final = ("hann", "hamming", "blackman", "rectangular")
SCALES: Final = ("slaney", "htk")


def soundfile() -> Any:  # Any: the module itself, which has no types
    """Return the module soundfile; raises ImportError naming what to install."""
    try:
        import soundfile as library
    except ImportError as error:
        raise ImportError("this audio op needs soundfile: pip install headrace[audio]") from error
    return library


def soxr() -> Any:  # Any: the module itself, whose arrays are too narrowly typed
    """Return the module soxr; raises ImportError naming what to install."""
    try:
        import soxr as library
    except ImportError as error:
        raise ImportError("audio.resample needs soxr: pip install headrace[audio]") from error
    return library


def window(kind: str, size: int, periodic: bool) -> F64:
    """Return the weights of a window; a periodic one is a symmetric one without its last."""
    if kind == "rectangular":
        return np.ones(size)
    shape = {"hann": np.hanning, "hamming": np.hamming, "blackman": np.blackman}[kind]
    return np.asarray(shape(size + 1)[:-1] if periodic else shape(size), np.float64)


def mel_of(hertz: F64, scale: str) -> F64:
    """Return frequencies on a mel scale: HTK's, or Slaney's, linear up to 1 kHz."""
    if scale == "htk":
        return 2595 * np.log10(1 + hertz / 700)
    upper = 15 + np.log(np.maximum(hertz, 1e-9) / 1000) * (27 / np.log(6.4))
    return np.where(hertz < 1000, hertz * (3 / 200), upper)


def hertz_of(mel: F64, scale: str) -> F64:
    """Return frequencies in hertz of those on a mel scale."""
    if scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    return np.where(mel < 15, mel * (200 / 3), 1000 * np.exp((mel - 15) * (np.log(6.4) / 27)))


def mel_bands(
    bins: int, rate: int, bands: int, low: float, high: float, scale: str, area: bool
) -> F64:
    """Return triangular weights [bins, bands]; with `area` each triangle's area is 1."""
    ends = mel_of(np.array([low, high], np.float64), scale)
    edges = hertz_of(np.linspace(ends[0], ends[1], bands + 2), scale)
    hertz = np.linspace(0, rate / 2, bins)[:, None]
    rising = (hertz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hertz) / (edges[2:] - edges[1:-1])
    weights = np.maximum(0, np.minimum(rising, falling))
    return weights * (2 / (edges[2:] - edges[:-2])) if area else weights
