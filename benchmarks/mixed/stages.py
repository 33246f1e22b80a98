"""Functions for the soak: one that fails, one that is run apart, one that takes its time."""

import threading
from typing import Any

Rows = Any  # Any: ndarrays, whose dtype the pipeline says


def picky(x: Rows) -> Rows:
    """Refuse what begins with a negative number."""
    if (x[:, 0] < 0).any():
        raise ValueError("poison")
    return x + 1


def apart(x: Rows) -> Rows:
    """Return something that only this returns."""
    return x * 2 + 3


def slow(x: Rows, seconds: Rows) -> Rows:
    """Return after that time."""
    threading.Event().wait(float(seconds))
    return x + 5
