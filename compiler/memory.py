"""How much memory the values between stages need at most, per device, for one request.

Values whose every dimension is known are laid out by the time they are alive; all others (a
number of boxes, the width of a page) are listed as unplanned. What a pipeline is given belongs to
the caller, constants belong to the plan, and what a model uses inside is its backend's.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..dsl.types import DType, ListType, OptionalType, TensorType, Type
from .arena import Buffer, assign_offsets
from .graph import (
    Constant,
    For,
    Graph,
    If,
    Loop,
    Match,
    Node,
    Region,
    Together,
    Transfer,
    Try,
    Value,
)
from .plan import MemoryPlan
from .stage_settings import device_of

BYTES: Mapping[DType, int] = {
    **dict.fromkeys((DType.BOOL, DType.I8, DType.U8), 1),
    **dict.fromkeys((DType.I16, DType.U16, DType.F16, DType.BF16), 2),
    **dict.fromkeys((DType.I32, DType.U32, DType.F32), 4),
    **dict.fromkeys((DType.I64, DType.U64, DType.F64), 8),
}


def plan_memory(graph: Graph) -> tuple[MemoryPlan, ...]:
    """Return the memory of a placed pipeline on each device that it uses or has a budget for."""
    life = _life_of(graph)
    budgets = dict(graph.settings.memory)
    devices = sorted({*life.device.values(), *budgets})
    return tuple(_plan_device(life, device, budgets.get(device)) for device in devices)


def buffers_of(graph: Graph, device: str) -> tuple[Buffer, ...]:
    """Return the values on a device whose size is known, as buffers in the order they are made."""
    return _buffers(_life_of(graph), device)[0]


def _life_of(graph: Graph) -> "_Life":
    life = _Life(graph)
    life.walk(graph.body, graph.batch or 1)
    for value in graph.body.results:
        life.use(value, life.step)
    return life


@dataclass(slots=True)
class _Life:
    """When each value is made and last read, counting nodes from the first to the last."""

    graph: Graph
    step: int = 0
    first: dict[Value, int] = field(default_factory=dict[Value, int])
    last: dict[Value, int] = field(default_factory=dict[Value, int])
    device: dict[Value, str] = field(default_factory=dict[Value, str])
    rows: dict[Value, int | None] = field(default_factory=dict[Value, "int | None"])
    same: dict[Value, list[Value]] = field(default_factory=dict[Value, list[Value]])

    def walk(self, region: Region, rows: int | None) -> None:
        """Number the nodes of a region that runs for `rows` rows (None: not known)."""
        for node in region.nodes:
            self.step += 1
            for value in node.inputs:
                self.use(value, self.step)
            if node.regions:
                self._regions(node, _rows_inside(node, rows))
            if not isinstance(node.kind, Constant):
                self._make(node, rows)

    def _regions(self, node: Node, rows: int | None) -> None:
        before = self.step
        if isinstance(node.kind, Loop):
            # what a turn starts with lives as long as a start value would: two copies in turn
            starts = zip(node.regions[0].params, node.inputs[1:], strict=True)
            self.same.update({param: [start] for param, start in starts})
        for inner in node.regions:
            self.walk(inner, rows)
            self.step += 1
            for value in inner.results:
                self.use(value, self.step)
        if isinstance(node.kind, Together):
            # all arms run at this time, in no known order
            for value, first in self.first.items():
                if first > before:
                    self.first[value], self.last[value] = before + 1, self.step
        # A block holds what its inner blocks read until they are done.
        for value, last in self.last.items():
            if self.first[value] <= before <= last:
                self.last[value] = self.step

    def _make(self, node: Node, rows: int | None) -> None:
        if isinstance(node.kind, Together):
            results = (value for region in node.regions for value in region.results)
            self.same.update((v, [one]) for v, one in zip(node.outputs, results, strict=True))
            return
        for index, value in enumerate(node.outputs):
            if node.regions:
                # What control flow gives is what its regions made, not a copy of it.
                self.same[value] = [region.results[index] for region in node.regions]
                continue
            device = node.kind.device if isinstance(node.kind, Transfer) else None
            self.device[value] = device or device_of(self.graph, node)
            self.first[value] = self.last[value] = self.step
            self.rows[value] = rows

    def use(self, value: Value, step: int) -> None:
        if value in self.last:
            self.last[value] = max(self.last[value], step)
        for origin in self.same.get(value, ()):
            self.use(origin, step)


def _rows_inside(node: Node, rows: int | None) -> int | None:
    match node.kind:
        case For():
            counts = [_length(value.type) for value in node.inputs]
            known = [count for count in counts if count is not None]
            return rows * min(known) if rows is not None and known else None
        case If() | Match() | Try() | Loop() | Together():
            return rows
        case _:
            return rows


def _length(type: Type) -> int | None:
    match type:
        case TensorType(dims=(int(length), *_)):
            return length
        case ListType(maximum=maximum):
            return maximum
        case _:
            return None


def _plan_device(life: _Life, device: str, budget: int | None) -> MemoryPlan:
    buffers, unplanned = _buffers(life, device)
    arena = assign_offsets(buffers)
    return MemoryPlan(life.graph.name, device, arena.peak, arena.lower_bound, budget, unplanned)


def _buffers(life: _Life, device: str) -> tuple[tuple[Buffer, ...], tuple[str, ...]]:
    """Return the buffers of a device, and the names of values of unknown size."""
    buffers: list[Buffer] = []
    unplanned: dict[str, None] = {}
    for value, first in life.first.items():
        if life.device[value] != device:
            continue
        size, rows = bytes_of(value.type), life.rows[value]
        if size is None or rows is None:
            unplanned[value.name] = None
        else:
            buffers.append(Buffer(value.name, size * rows, first, life.last[value]))
    return tuple(buffers), tuple(unplanned)


def bytes_of(type: Type) -> int | None:
    """Return the bytes of a value, None when its type does not tell."""
    match type:
        case TensorType(dtype=dtype, dims=dims) if dtype in BYTES:
            sizes = [dim for dim in dims if isinstance(dim, int)]
            return BYTES[dtype] * math.prod(sizes) if len(sizes) == len(dims) else None
        case ListType(item=item, maximum=int(maximum)):
            each = bytes_of(item)
            return each * maximum if each is not None else None
        case OptionalType(item=item):
            return bytes_of(item)
        case _:
            return None
