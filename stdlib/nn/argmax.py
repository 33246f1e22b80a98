"""The most likely class."""

import numpy as np

from ..choosing import choosing_op

OP = choosing_op(
    "nn.argmax",
    "ArgMax",
    np.argmax,
    "Gives the index of the greatest element along an axis, the first of equal ones; "
    "NaN comes before all. The same as `argmax`.",
)
