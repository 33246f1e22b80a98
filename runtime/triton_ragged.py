"""Rows of different sizes in one line, as a tritonserver gathers them (`allow_ragged_batch`).

A ragged input of the file has one axis, and the elements of all rows follow each other there. Where
they begin and end stands in inputs that the configuration asks for (`batch_input`). An output may
come in one line too, of which each row has as much as its input (`batch_output`). In a batch of the
rows [1, 2, 3] and [4]:

    BATCH_ELEMENT_COUNT                        [3, 1]
    BATCH_ACCUMULATED_ELEMENT_COUNT            [3, 4]
    BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO  [0, 3, 4]
    BATCH_MAX_ELEMENT_COUNT_AS_SHAPE           three elements, whatever they are
    BATCH_ITEM_SHAPE                           [[3], [1]]
    BATCH_ITEM_SHAPE_FLATTEN                   [3, 1]
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, cast

import numpy as np

from ..compiler.plan import ModelSegment
from ..stdlib.op import Array
from .devices.host import HostDevice
from .instance import ModelStage
from .rows import Rows, Value, as_array
from .session import Session, encoded
from .stage import Policy, StageError

Shapes = Sequence[tuple[int, ...]]


def _counts(shapes: Shapes) -> list[int]:
    return [prod(shape) for shape in shapes]


_KINDS: Final[Mapping[str, Callable[[Shapes], Any]]] = {  # Any: of numbers, one in another
    "BATCH_ELEMENT_COUNT": _counts,
    "BATCH_ACCUMULATED_ELEMENT_COUNT": lambda shapes: np.cumsum(_counts(shapes)),
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": lambda shapes: np.cumsum([0, *_counts(shapes)]),
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE": lambda shapes: np.zeros(max(_counts(shapes))),
    "BATCH_ITEM_SHAPE": list,
    "BATCH_ITEM_SHAPE_FLATTEN": lambda shapes: np.ravel(list(shapes)),
}


@dataclass(frozen=True, slots=True)
class Told:
    """An input that tells of the rows of another, its `source`."""

    name: str
    kind: str
    source: str
    dtype: "np.dtype[Any]"  # Any: of any scalar

    def of(self, shapes: Shapes) -> Array:
        """Return its value, of rows of these shapes."""
        return np.asarray(_KINDS[self.kind](shapes), self.dtype)


@dataclass(frozen=True, slots=True)
class Gathering:
    """What a configuration says of rows in one line: which inputs, what tells of them, and outputs
    by name with the input whose sizes they have."""

    ragged: frozenset[str]
    told: tuple[Told, ...]
    scattered: Mapping[str, str]


def gathering_of(config: Mapping[str, Any]) -> Gathering:  # Any: JSON
    """Read a configuration."""
    types = {"TYPE_FP32": np.dtype(np.float32), "TYPE_INT32": np.dtype(np.int32)}
    return Gathering(
        frozenset(
            one["name"] for one in config.get("input") or () if one.get("allow_ragged_batch")
        ),
        tuple(
            Told(name, one["kind"], one["source_input"][0], types[one["data_type"]])
            for one in config.get("batch_input") or ()
            for name in one["target_name"]
        ),
        {
            name: one["source_input"][0]
            for one in config.get("batch_output") or ()
            for name in one["target_name"]
        },
    )


class RaggedStage(ModelStage):
    """Rows that differ in the sizes of ragged inputs alone share a run."""

    def __init__(
        self,
        segment: ModelSegment,
        session: Session,
        policy: Policy | None,
        index: int,
        gathering: Gathering,
    ) -> None:
        super().__init__(segment, session, HostDevice(), policy, index)
        self._gathering = gathering

    def _key(self, columns: Sequence[Rows], row: int) -> Hashable:
        return tuple(
            None
            if name in self._gathering.ragged
            else as_array(cast("Any", column.item(row)), dtype).shape  # Any: no View, on the host
            for (name, _, dtype, _), column in zip(self._inputs, columns, strict=True)
        )

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        feeds, shapes = dict[str, Array](), dict[str, Shapes]()
        for (name, _, dtype, _), column in zip(self._inputs, columns, strict=True):
            arrays = [as_array(cast("Any", one), dtype) for one in column.items()]  # Any: as above
            shapes[name] = [one.shape for one in arrays]
            ragged = name in self._gathering.ragged
            feeds[name] = (
                np.concatenate([one.ravel() for one in arrays]) if ragged else np.stack(arrays)
            )
        feeds |= {one.name: one.of(shapes[one.source]) for one in self._gathering.told}
        try:
            outputs = self._session.run(feeds)
        except Exception as error:
            raise StageError(f"the model failed: {self._reason(error)}") from error
        fields = self._segment.signature.results
        names = self._segment.output_names
        outputs = encoded(outputs, fields)
        return [
            self._scattered(name, output, shapes[self._gathering.scattered[name]], field.type)
            if name in self._gathering.scattered
            else self._column(output, 0, count)
            for name, output, field in zip(names, outputs, fields, strict=True)
        ]

    def _scattered(self, name: str, output: Array, shapes: Shapes, kind: Any) -> Rows:
        """Return a row for each of an input's: sizes that are left open are those of the input."""
        flat, at = output.ravel(), 0
        rows: list[Value] = []
        for shape in shapes:
            sizes = [
                dim if isinstance(dim, int) else shape[axis] if axis < len(shape) else 1
                for axis, dim in enumerate(kind.dims)
            ]
            rows.append(flat[at : at + prod(sizes)].reshape(sizes))
            at += prod(sizes)
        if at != flat.size:
            raise StageError(f"output `{name}` has {flat.size} elements for rows of {at}")
        return Rows.of(rows)
