"""Requests whose copies are held against what their plan says, work by work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.compiler.plan import Plan
from headrace.runtime.devices.device import View
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.inline import Inline
from headrace.runtime.load import LoadConfig, Stages
from headrace.runtime.metrics import StageCell, Tally
from headrace.runtime.prepared import Prepared, present
from headrace.runtime.request import InSequence
from headrace.runtime.rows import Rows, Value
from headrace.runtime.stage import Part, Stage
from headrace.runtime.transfer import TransferStage
from headrace.runtime.turns import Sequences
from headrace.stdlib.op import Item

COPYING = frozenset({"to sim", "to cpu"})


class CheckedStage:
    """A stage that fails the test when a device copies more or less than its work says."""

    def __init__(self, stage: Stage, device: SimDevice) -> None:
        self.name, self.index, self.policy = stage.name, stage.index, stage.policy
        self._stage, self._device = stage, device
        self.copies = 0

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        ups = downs = 0
        if isinstance(self._stage, TransferStage):
            moving = copies(columns[0], "sim" if self.name == "to sim" else "cpu")
            ups, downs = (moving, 0) if self.name == "to sim" else (0, moving)
        before = self._device.ledger
        results = self._stage.run(columns, count, cell)
        after = self._device.ledger
        assert (after.h2d - before.h2d, after.d2h - before.d2h) == (ups, downs), self.name
        self.copies += ups + downs
        return results

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        return self._stage.run_together(columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        return self._stage.split(columns, count)


def copies(column: Rows, to: str) -> int:
    """Return how many copies bring a column to a device: one if it is one tensor, else one for each
    tensor in it that is not there yet."""
    if column.is_stacked:
        return _copies([column.stack() if to == "sim" else column.item(0)], to)
    return _copies([column.item(0)] if column.is_shared else column.items(), to)


def _copies(values: Sequence[Value], to: str) -> int:
    found = 0
    for value in values:
        if isinstance(value, list):
            found += _copies(value, to)
        elif isinstance(value, View):
            found += to == "cpu"
        elif value is not None and to == "sim":
            found += np.asarray(value).dtype.kind not in "OUS"
    return found


@dataclass(frozen=True, slots=True)
class Answered:
    """Results by name, and how many copies of the plan were made for them."""

    outputs: dict[str, Item]
    copies: int


class CheckedPipeline:
    """One pipeline of a plan on a strict device, which refuses copies but those of transfers."""

    def __init__(self, plan: Plan, name: str, *, delay: int | None = None) -> None:
        config = SimConfig(delay=delay, copying=COPYING, leaks=True)
        self.device = SimDevice(config=config)
        self._stages = Stages(plan, LoadConfig(devices=(self.device,)))
        self._checked = [CheckedStage(stage, self.device) for stage in self._stages.all]
        planned = plan.pipeline(name)
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
        """Close the device; raises where values live."""
        del self._prepared
        self._sequences = None
        self._stages.close()
        self.device.close()
