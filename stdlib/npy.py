"""Arrays in files of NumPy's own format, read without running what may be pickled in them."""

from io import BytesIO
from typing import Final

import numpy as np

from .op import Array

_START: Final = b"\x93NUMPY"


def read_npy(content: bytes) -> Array:
    """Return the array of a `.npy` file. Raises ValueError saying why it is none: NumPy itself
    takes what is none for a pickle, or for an archive of arrays."""
    if not content.startswith(_START):
        raise ValueError("it does not start as a .npy file does")
    try:
        return np.load(BytesIO(content), allow_pickle=False)
    except EOFError as error:
        raise ValueError(f"it ends too early: {error}") from error
