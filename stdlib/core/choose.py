"""The index of the greatest and least element along an axis."""

import numpy as np

from ..choosing import choosing_op

OPS = (
    choosing_op(
        "core.argmax",
        "ArgMax",
        np.argmax,
        "Gives the index of the greatest element along an axis, the first of equal ones; "
        "NaN comes before all.",
    ),
    choosing_op(
        "core.argmin",
        "ArgMin",
        np.argmin,
        "Gives the index of the least element along an axis, the first of equal ones; "
        "NaN comes before all.",
    ),
)
