"""Requests whose copies are held against what their plan says, work by work."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.compiler.plan import Plan
from headrace.compiler.plan_walk import copies_of
from headrace.runtime.devices.device import View
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.inline import Inline
from headrace.runtime.load import LoadConfig, Stages
from headrace.runtime.metrics import StageCell, Tally
from headrace.runtime.prepared import Prepared
from headrace.runtime.present import present
from headrace.runtime.request import InSequence
from headrace.runtime.rows import Rows, Value
from headrace.runtime.stage import Part, Stage
from headrace.runtime.transfer import TransferStage
from headrace.runtime.turns import Sequences
from headrace.stdlib.op import Item

Crossing = tuple[str, str]
"""A device, and the way that a value comes there: "h2d", "d2d", or leaves it: "d2h"."""


class CheckedStage:
    """A stage that fails the test when a device copies more or less than its work says."""

    def __init__(self, stage: Stage, devices: Sequence[SimDevice]) -> None:
        self.name, self.index, self.policy = stage.name, stage.index, stage.policy
        self._stage, self._devices = stage, devices
        self.copies = 0

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        wanted: Counter[Crossing] = Counter()
        if isinstance(self._stage, TransferStage):
            wanted = crossings(columns[0], self.name.removeprefix("to "))
        before = self._counted()
        results = self._stage.run(columns, count, cell)
        found = self._counted() - before
        if not isinstance(self._stage, TransferStage):  # may stack rows where they are
            found = Counter({one: number for one, number in found.items() if one[1] != "d2d"})
        assert found == wanted, self.name
        self.copies += found.total()
        return results

    def _counted(self) -> Counter[Crossing]:
        found: Counter[Crossing] = Counter()
        for device in self._devices:
            ledger = device.ledger
            found[device.name, "h2d"] = ledger.h2d + ledger.mapped
            found[device.name, "d2h"] = ledger.d2h
            found[device.name, "d2d"] = ledger.d2d
        return found

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        return self._stage.run_together(columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        return self._stage.split(columns, count)


def crossings(column: Rows, to: str) -> Counter[Crossing]:
    """Return the copies that bring a column to a device: one if it is one tensor, else one for each
    tensor in it that is not there yet."""
    if column.is_stacked:
        values = [column.stack()]
    else:
        values = [column.item(0)] if column.is_shared else column.items()
    return Counter(_crossings(values, to))


def _crossings(values: Sequence[Value], to: str) -> Iterator[Crossing]:
    for value in values:
        if isinstance(value, list):
            yield from _crossings(value, to)
        elif isinstance(value, View):
            holder = value.buffer.device.name
            if to == "cpu":
                yield holder, "d2h"
            elif holder != to or not value.is_whole:  # of a part, memory of its own is wanted
                yield to, "d2d"
        elif value is not None and to != "cpu" and np.asarray(value).dtype.kind not in "OUS":
            yield to, "h2d"


@dataclass(frozen=True, slots=True)
class Answered:
    """Results by name, and how many copies of the plan were made for them."""

    outputs: dict[str, Item]
    copies: int


class CheckedPipeline:
    """One pipeline of a plan on strict devices, which refuse copies but those of transfers; what
    `integrated` ones map counts as copied. `device` is the first of them."""

    def __init__(
        self, plan: Plan, name: str, *, delay: int | None = None, integrated: bool = False
    ) -> None:
        planned = plan.pipeline(name)
        kinds = dict.fromkeys(("sim", *(d for d in copies_of(planned.body) if d != "cpu")))
        copying = frozenset(f"to {device}" for device in ("cpu", *kinds))
        config = SimConfig(delay=delay, copying=copying, leaks=True, integrated=integrated)
        numbers = [int(device.partition(":")[2] or 0) for device in kinds]
        self.devices = tuple(SimDevice(number, config) for number in numbers)
        self.device = self.devices[0]
        self._stages = Stages(plan, LoadConfig(devices=self.devices))
        self._checked = [CheckedStage(stage, self.devices) for stage in self._stages.all]
        self._sequences = Sequences(planned, 16, lambda: 0.0) if planned.idle is not None else None
        self._prepared = Prepared(
            planned, 0, self._checked, self._transfer, self._sequences, self._stages.caches
        )

    def _transfer(self, device: str) -> Stage:
        return self._checked[self._stages.transfer(device).index]

    def __call__(
        self, inputs: Mapping[str, object], sequence: InSequence | None = None
    ) -> Answered:
        pipeline, before = self._prepared, sum(stage.copies for stage in self._checked)
        tally = Tally(1, len(self._checked))
        inline = Inline(pipeline, tally, lambda: 0.0, None)
        columns, (block, presenters) = pipeline.accept(inputs), pipeline.wanted(None)
        if sequence is None:
            results = inline.finish(pipeline.start(columns, block))
        else:
            sequences, turn = pipeline.ask(sequence)
            results = inline.finish(pipeline.start_turn(turn, columns, block))
            end = len(results) - len(pipeline.plan.states)
            sequences.finish(turn, results[end:])
            results = results[:end]
        outputs = present(presenters, results)
        after = sum(stage.copies for stage in self._checked)
        return Answered(outputs, after - before)

    def close(self) -> None:
        """Close the devices; raises where values live."""
        del self._prepared
        self._sequences = None
        self._stages.close()
        for device in self.devices:
            device.close()

    def settle(self) -> None:
        """Do all that was asked of the devices."""
        for device in self.devices:
            device.settle()

    @property
    def balanced(self) -> bool:
        return all(device.ledger.balanced for device in self.devices)
