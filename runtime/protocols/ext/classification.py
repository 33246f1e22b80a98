"""Extension: the highest values of an output in its place, as texts `value:index[:label]`."""

from collections.abc import Sequence

import numpy as np

from ...request import RequestError
from ..datatypes import BYTES
from ..parameters import Parameters, whole
from ..results import WireTensor

NAMES = ("classification",)


def read_classes(parameters: Parameters) -> int:
    """Return how many classes are asked for; 0 for none."""
    return whole(parameters, "classification") or 0


def classified(
    tensor: WireTensor, classes: int, labels: Sequence[str], batched: bool
) -> WireTensor:
    """Return at most so many classes, the highest first, of the tensor or of each of its rows.

    Of equal values the first is the higher one. Raises RequestError for texts.
    """
    values = tensor.flat
    if not isinstance(values, np.ndarray):
        raise RequestError(f"output `{tensor.name}` is {tensor.datatype.name}: it has no classes")
    count = tensor.shape[0] if batched and tensor.shape else 1
    rows = values.reshape(count, -1) if count else values.reshape(0, 1)
    # NaN is lower than all; reversed twice, so that of equal values the first comes first
    order = np.argsort(rows[:, ::-1], axis=1, kind="stable")[:, ::-1]
    order = rows.shape[1] - 1 - order[:, :classes]
    whole = np.issubdtype(rows.dtype, np.integer) or rows.dtype == np.bool_
    texts = [
        _text(rows[row, index].item(), index, whole, labels)
        for row, chosen in enumerate(order.tolist())
        for index in chosen
    ]
    shape = (count, order.shape[1]) if batched else (order.shape[1],)
    return WireTensor(tensor.name, BYTES, shape, texts)


def _text(value: float, index: int, whole: bool, labels: Sequence[str]) -> str:
    said = str(int(value)) if whole else f"{float(value):f}"
    return f"{said}:{index}:{labels[index]}" if index < len(labels) else f"{said}:{index}"
