"""The sigmoid, which stands under two families, and samples of real functions."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from .op import Array, Sample

SIGMOID: Final = "1 / (1 + real_exp(-{0}))"
"""The same in generated code."""


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) in the dtype of x."""
    one = x.dtype.type(1)
    return np.divide(one, np.add(one, np.exp(np.negative(x))))


def real_samples(random: np.random.Generator) -> Sequence[Sample]:
    """Make arguments of a function of one real number."""
    x = random.normal(0, 3, (3, 4)).astype(np.float32)
    halves = np.array([-2.5, -0.5, 0.0, 0.5, 1.5, np.inf, np.nan], np.float32)
    return [(x,), (x[0, 0],), (halves,), (x.astype(np.float64),), (x.astype(np.float16),), (2,)]
