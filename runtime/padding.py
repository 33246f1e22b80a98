"""Rows of different size as one batch: filled up at the end, and what comes out is cut back.

Only for a model that declares that this changes no result (`pads`). Rows meet whose size is equal
in units of the bucket; each becomes as large as the largest of its batch. Values on a device are
filled up and cut back there.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, cast

import numpy as np

from ..compiler.plan import ModelSegment, Pads, PythonSegment
from ..dsl.linear import variables
from ..dsl.types import Dim, OptionalType, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array, Literal
from .devices.device import Device, Stream, View
from .gather import gather
from .metrics import StageCell
from .rows import Rows, Tensor, Value, as_array
from .shapes import Bindings, bind, evaluate
from .stage import Part, StageError, classes


class Padder:
    """Fills up and cuts back along one dimension of a model."""

    def __init__(self, segment: ModelSegment | PythonSegment) -> None:
        """The segment has a `padding`."""
        padding = segment.batching.padding if segment.batching is not None else None
        if padding is None:
            raise AssertionError(f"`{segment.name}` pads nothing")
        pads = next(one for one in segment.pads if one.dim == padding.dim)
        self._dim, self._bucket, self._waste = pads.dim, padding.bucket, padding.waste
        self._params = tuple(_tensor(field.type) for field in segment.signature.params)
        self._inputs = tuple(_inputs(self._params, pads))
        self._results = tuple(
            tuple((axis, dim) for axis, dim in enumerate(dims) if pads.dim in variables(dim))
            for dims in (_dims(field.type) for field in segment.signature.results)
        )

    @classmethod
    def of(cls, segment: ModelSegment | PythonSegment) -> "Padder | None":
        """Return what fills up the rows of a segment; None where nothing does."""
        padded = segment.batching is not None and segment.batching.padding is not None
        return cls(segment) if padded else None

    def size(self, columns: Sequence[Rows], row: int) -> int | None:
        """Return how large a row is; None when its inputs do not agree, or none says."""
        found: set[int] = set()
        for index, axes, _, dtype in self._inputs:
            value = columns[index].item(row)
            if value is not None:
                shape = _shape(value, dtype)
                found.update(shape[axis] if axis < len(shape) else -1 for axis in axes)
        return next(iter(found)) if len(found) == 1 and min(found) >= 0 else None

    def rank(self, columns: Sequence[Rows], row: int) -> int:
        """Return the size that a row is sorted by; 0 when it is not known."""
        return self.size(columns, row) or 0

    def split(
        self, columns: Sequence[Rows], count: int, key: Callable[[Sequence[Rows], int], Hashable]
    ) -> list[Part]:
        """Sort rows by `key` and size; parts of one key may share a run whatever their size."""
        found = classes(columns, count, lambda some, row: (key(some, row), self.rank(some, row)))
        return [
            replace(part, key=key(part.columns, 0), size=self.rank(part.columns, 0))
            for part in found
        ]

    def count(self, columns: Sequence[Rows], count: int, cell: StageCell) -> None:
        """Count the rows of an execution that are filled up."""
        sizes = self.sizes(columns, count)
        cell.padded += sum(size < max(sizes) for size in sizes)

    def run(
        self,
        execute: Callable[[Sequence[Rows], int], list[Rows]],
        columns: Sequence[Rows],
        count: int,
        space: "Space | None" = None,
    ) -> list[Rows]:
        """Run rows of one key in one execution, each as large as the largest."""
        sizes = self.sizes(columns, count) if count > 1 else []
        if not sizes:
            return execute(columns, count)
        filled = self.fill(columns, sizes, space or HOST)
        return self.cut(execute(filled, count), columns, sizes, space or HOST)

    def shape(self, index: int, shape: tuple[int, ...], size: int) -> Hashable:
        """Return what the rows of a batch have in common of the shape of input `index`."""
        axes = next((axes for i, axes, _, _ in self._inputs if i == index), ())
        bucket = -(-size // self._bucket) if self._bucket is not None else None
        return tuple(bucket if axis in axes else one for axis, one in enumerate(shape))

    def join(self, parts: Sequence[Part], columns: Sequence[Rows], limit: int) -> list[Part]:
        """Return the batches of up to `limit` rows that parts of one size each make together."""
        lines: dict[Hashable, list[tuple[Part, Sequence[int]]]] = {}
        for part in parts:
            rows = part.rows if part.rows is not None else range(part.count)
            lines.setdefault(part.key, []).append((part, rows))
        joined: list[Part] = []
        for key, line in lines.items():
            while line:
                taken = gather(
                    ((len(rows), part.size) for part, rows in line), limit, 0, self._waste
                )
                numbers = tuple(
                    sorted(row for index, count in taken for row in line[index][1][:count])
                )
                for index, count in reversed(taken):
                    part, rows = line[index]
                    line[index] = part, rows[count:]
                line = [one for one in line if one[1]]
                some = tuple(column.take(numbers) for column in columns)
                joined.append(Part(key, numbers, some, len(numbers)))
        return joined

    def sizes(self, columns: Sequence[Rows], count: int) -> list[int]:
        """Return how large each row is; nothing when they are equally large, or one is unclear."""
        sizes = [self.size(columns, row) for row in range(count)]
        known = [size for size in sizes if size is not None]
        return known if len(known) == count and len(set(known)) > 1 else []

    def fill(self, columns: Sequence[Rows], sizes: Sequence[int], space: "Space") -> list[Rows]:
        """Return the columns with every row as large as the largest."""
        filled, largest = list(columns), max(sizes)
        for index, axes, value, dtype in self._inputs:
            items = columns[index].items()
            if items[0] is not None:
                shape = tuple(
                    largest if axis in axes else size
                    for axis, size in enumerate(_shape(items[0], dtype))
                )
                filled[index] = Rows.stacked(space.fill_up(items, shape, value, dtype))
        return filled

    def cut(
        self,
        results: Sequence[Rows],
        given: Sequence[Rows],
        sizes: Sequence[int],
        space: "Space",
    ) -> list[Rows]:
        """Return results with each row as large as it is alone; `given` are the rows as they were.

        Raises StageError when the model gave less than a row alone would have.
        """
        known = [self._bindings(given, row, size) for row, size in enumerate(sizes)]
        cut: list[Rows] = []
        for column, axes in zip(results, self._results, strict=True):
            if not axes:
                cut.append(column)
                continue
            cut.append(
                Rows.of([_cut(column.item(row), axes, one, space) for row, one in enumerate(known)])
            )
        return cut

    def _bindings(self, given: Sequence[Rows], row: int, size: int) -> Bindings:
        bindings: Bindings = {self._dim: size}
        if any(dim != self._dim for axes in self._results for _, dim in axes):
            for kind, column in zip(self._params, given, strict=False):  # and whom it serves
                value = column.item(row)
                if value is not None and kind is not None:
                    bind(kind.dims, _shape(value), bindings)
        return bindings


def _inputs(
    params: Sequence[TensorType | None], pads: Pads
) -> "list[tuple[int, tuple[int, ...], Literal, np.dtype[Any]]]":  # Any: of any scalar
    """Return of each input that has the dimension its index, where it has it, its fill."""
    return [
        (
            index,
            tuple(axis for axis, dim in enumerate(kind.dims) if dim == pads.dim),
            pads.fill[index],
            to_numpy(kind.dtype),
        )
        for index, kind in enumerate(params)
        if kind is not None and pads.dim in kind.dims
    ]


class Space(Protocol):
    """Where rows lie that are filled up and cut back."""

    # Any: of any scalar
    def fill_up(
        self,
        items: Sequence[Value],
        shape: tuple[int, ...],
        value: Literal,
        dtype: "np.dtype[Any]",
    ) -> Tensor:
        """Stack items, each filled up to a shape."""
        ...

    def cut(self, item: Value, shape: tuple[int, ...]) -> Value:
        """Return what lies at the beginning of each axis."""
        ...


class Host:
    """Arrays."""

    # Any: of any scalar
    def fill_up(
        self,
        items: Sequence[Value],
        shape: tuple[int, ...],
        value: Literal,
        dtype: "np.dtype[Any]",
    ) -> Tensor:
        arrays = [as_array(item, dtype) for item in items]
        filled: Array = np.full((len(arrays), *shape), value, arrays[0].dtype)
        for row, array in enumerate(arrays):
            filled[(row, *map(slice, array.shape))] = array
        return filled

    def cut(self, item: Value, shape: tuple[int, ...]) -> Value:
        return cast("Array", item)[tuple(map(slice, shape))]


HOST: Final = Host()


class OnDevice:
    """Views of one device, in the order of a stage's stream."""

    def __init__(self, device: Device, stage: str, stream: Stream) -> None:
        self._device, self._stage, self._stream = device, stage, stream

    # Any: of any scalar
    def fill_up(
        self,
        items: Sequence[Value],
        shape: tuple[int, ...],
        value: Literal,
        dtype: "np.dtype[Any]",
    ) -> Tensor:
        del dtype  # views have their own
        views = [_view(item, self._device) for item in items]
        return self._device.fill_up(views, shape, value, self._stage, self._stream)

    def cut(self, item: Value, shape: tuple[int, ...]) -> Value:
        return self._device.cut(_view(item, self._device), shape, self._stage, self._stream)


def _view(item: Value, device: Device) -> View:
    if not isinstance(item, View):
        raise StageError(f"a row is in the host's memory, and the model runs on {device.name}")
    return item


def _cut(item: Value, axes: Sequence[tuple[int, Dim]], known: Bindings, space: Space) -> Value:
    shape = list(_shape(item))
    for axis, dim in axes:
        size = evaluate(dim, known)
        if size is None or size > shape[axis]:
            raise StageError(f"the model gave {shape[axis]} of `{dim}`, and a row has {size}")
        shape[axis] = size
    return space.cut(item, tuple(shape))


def _shape(item: Value, dtype: "np.dtype[Any] | None" = None) -> tuple[int, ...]:  # Any: as above
    return item.shape if isinstance(item, View) else as_array(item, dtype).shape


def _tensor(kind: Type) -> TensorType | None:
    """Return the type of a tensor; None for a list, which is of no size that can be padded."""
    kind = kind.item if isinstance(kind, OptionalType) else kind
    return kind if isinstance(kind, TensorType) else None


def _dims(kind: Type) -> tuple[Dim, ...]:
    tensor = _tensor(kind)
    return tensor.dims if tensor is not None else ()
