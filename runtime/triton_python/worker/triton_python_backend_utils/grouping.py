"""Requests of the rows that came, and rows of what is answered to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .batches import Group, Layout
from .messages import InferenceRequest
from .tensor import Tensor


def requests_of(first: int, told: Any, groups: list[Group]) -> list[InferenceRequest]:
    """Return the requests of a message, whose numbers follow `first`."""
    members = [member for group in groups for member in group.members()]
    more = [None] * len(members) if told is None else told
    return [
        InferenceRequest.received(first + at, more[at], [Tensor.received(*one) for one in member])
        for at, member in enumerate(members)
    ]


def groups_of(responses: list[list[Tensor]]) -> list[Group]:
    """Return the outputs of responses: of those that follow each other with tensors of the same
    names, types and sizes of rows, as the rows of one."""
    groups: list[Group] = []
    last, counts, parts = None, [], []
    for outputs in responses:
        packed = [one.packed() for one in outputs]
        shapes = [values.shape for *_, values in packed]
        rows = shapes[0][0] if shapes and shapes[0] else None
        if rows is None or any(not shape or shape[0] != rows for shape in shapes):
            rows, shown = None, shapes
        else:
            shown = [shape[1:] for shape in shapes]
        layout = Layout(
            tuple((name, kind, sizes) for (name, kind, _), sizes in zip(packed, shown)),  # noqa: B905
            rows is not None,
        )
        if layout != last or rows is None:
            if last is not None:
                groups.append(_joined(last, counts, parts))
            last, counts, parts = layout, [], []
        counts.append(1 if rows is None else rows)
        parts.append([values for *_, values in packed])
    if last is not None:
        groups.append(_joined(last, counts, parts))
    return groups


def _joined(layout: Layout, counts: list[int], parts: list[list[Any]]) -> Group:
    arrays = parts[0] if len(parts) == 1 else [np.concatenate(one) for one in zip(*parts)]  # noqa: B905
    return Group(layout, tuple(counts), arrays)
