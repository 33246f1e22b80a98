"""Letters to numbers and back."""

import numpy as np
from numpy.typing import NDArray

LETTERS = "\n abcdefghijklmnopqrstuvwxyz"


def encode(text: str) -> NDArray[np.int64]:
    """Return the number of each letter; what is no letter is a space."""
    return np.array([max(LETTERS.find(letter), 1) for letter in text.lower()], np.int64)


def letter(token: NDArray[np.int64]) -> str:
    """Return the letter of a number."""
    return LETTERS[int(token)]
