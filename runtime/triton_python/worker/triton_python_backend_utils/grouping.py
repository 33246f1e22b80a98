"""Requests of the rows that came, and rows of what is answered to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .batches import Group, Layout
from .messages import InferenceRequest
from .tensor import Tensor, kind_of, values_of


def requests_of(first: int, told: Any, groups: list[Group]) -> list[InferenceRequest]:
    """Return the requests of a message, whose numbers follow `first`."""
    members = [inputs for group in groups for inputs in _members(group)]
    if told is None:
        return list(map(InferenceRequest.received, itertools.count(first), members))
    return [
        InferenceRequest.received(first + at, inputs, told[at]) for at, inputs in enumerate(members)
    ]


def _members(group: Group) -> Iterable[list[Tensor]]:
    """Return the tensors of each member of a group."""
    (tensors, _), counts, arrays = group
    if len(counts) == 1:
        whole = [
            Tensor.received(name, datatype, array)
            for (name, datatype, _), array in zip(tensors, arrays)  # noqa: B905 as many
        ]
        return [whole]
    if not tensors:
        return [[] for _ in counts]
    stops = [*itertools.accumulate(counts)]
    spans = [slice(stop - count, stop) for count, stop in zip(counts, stops)]  # noqa: B905
    columns = [
        [Tensor.received(name, datatype, array[span]) for span in spans]
        for (name, datatype, _), array in zip(tensors, arrays)  # noqa: B905 as many
    ]
    return map(list, zip(*columns))  # noqa: B905 as many


class _Form(NamedTuple):
    """What is to be known of responses whose tensors are of these `kinds`: names, types, shapes.
    Those `at` these places are wanted."""

    kinds: list[tuple[str, str, tuple[int, ...]]]
    at: list[int]
    layout: Layout
    rows: int


class Stacking:
    """Makes groups of responses, and remembers the form of the last, which the next mostly has."""

    def __init__(self) -> None:
        self._form: _Form | None = None

    def groups_of(self, responses: list[list[Tensor]], wanted: frozenset[str]) -> list[Group]:
        """Return the wanted outputs of responses, always the same: of those that follow each other
        with tensors of the same names, types and sizes of rows, as the rows of one."""
        groups: list[Group] = []
        form, layout, counts, parts = self._form, None, [], []
        for outputs in responses:
            kinds = [*map(kind_of, outputs)]
            if form is None or form.kinds != kinds:
                form = _form_of(kinds, wanted)
            if form.layout != layout or not form.layout.rows:
                if layout is not None:
                    groups.append(_joined(layout, counts, parts))
                layout, counts, parts = form.layout, [], []
            counts.append(form.rows)
            parts.append(
                outputs if len(form.at) == len(outputs) else [outputs[at] for at in form.at]
            )
        if layout is not None:
            groups.append(_joined(layout, counts, parts))
        self._form = form
        return groups


def _form_of(kinds: list[tuple[str, str, tuple[int, ...]]], wanted: frozenset[str]) -> _Form:
    at = [place for place, (name, _, _) in enumerate(kinds) if name in wanted]
    found = [kinds[place] for place in at]
    counts = {shape[0] if shape else None for _, _, shape in found}
    rows = counts.pop() if len(counts) == 1 else None
    if rows is None:
        return _Form(kinds, at, Layout(tuple(found), False), 1)
    tensors = tuple((name, datatype, shape[1:]) for name, datatype, shape in found)
    return _Form(kinds, at, Layout(tensors, True), rows)


def _joined(layout: Layout, counts: list[int], parts: list[list[Tensor]]) -> Group:
    if len(parts) == 1:
        return Group(layout, (counts[0],), [*map(values_of, parts[0])])
    arrays = [np.concatenate([*map(values_of, column)]) for column in zip(*parts)]  # noqa: B905
    return Group(layout, tuple(counts), arrays)
