"""Batch axes where models that take batches meet others in an ensemble.

A tritonserver goes by the axes of a tensor. What has as many as an item of a model that batches is
one row for it, and what has one more is rows. One row has a batch axis of size 1 for whoever wants
one more axis, and rows that are one are without it for whoever wants one less.
"""

from collections.abc import Mapping, Sequence

from ..config import Message
from ..ensemble import steps
from ..subject import Subject


def fitted(value: str, axes: int, wanted: int) -> str:
    """Return the expression for a value that has one axis more or less in front, of size 1."""
    if wanted == axes + 1:
        return f"expand_dims({value}, axis = 0)"
    if wanted == axes - 1:
        return f"squeeze({value}, axis = 0)"
    return value


def axes_of(tensors: Message, leading: int) -> dict[str, int]:
    """Return how many axes inputs or outputs have with those in front of an item."""
    return {one.name: leading + len(one.dims) for one in tensors}


def fit_all(
    values: Mapping[str, str], axes: Mapping[str, int], wanted: Mapping[str, int]
) -> dict[str, str]:
    """Return values with the axes that are wanted."""
    return {
        name: fitted(value, axes.get(name, wanted[name]), wanted[name])
        for name, value in values.items()
    }


def is_mixed(models: Sequence[Subject]) -> bool:
    """Whether one of an ensemble's models takes no batches though an ensemble around it does."""
    return any(
        one.config.max_batch_size > 0 and not step.model.config.max_batch_size
        for one in models
        for step in steps(one)
    )
