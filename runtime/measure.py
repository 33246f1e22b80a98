"""Measures what the models of a plan take on this machine, alone and in batches.

Each model runs on rows of one shape: those that it is given when samples go through its pipeline,
else what its signature says, with named sizes at a stated default. A figure is the median of
several executions; a batch that would not fit into the time for its model is left out.
"""

import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import numpy as np

from ..compiler.plan import ModelSegment, Plan
from ..compiler.profile import Machine, ModelTimes, Profile, StageTime, Timing
from .devices.device import View
from .inline import Inline
from .instance import ModelStage
from .load import LoadConfig, Stages
from .metrics import StageCell, Tally
from .prepared import Prepared
from .rows import Rows, Value, as_array
from .stage import Stage, StageError
from .stand_ins import stand_ins

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with how many models are measured, how many there are, and the name of the next."""

_REQUESTS = 3  # timed ones, after one that is not
_LEAST, _MOST = 5, 51  # executions of a size of which the median is taken


@dataclass(frozen=True, slots=True)
class MeasureConfig:
    """`seconds` may go to each model; `size` stands for sizes that are only named; `threads` are
    those of one run, as on a server one. `clock` is in seconds."""

    rows: tuple[int, ...] = (1, 2, 4, 8, 16)
    seconds: float = 6.0
    size: int = 64
    threads: int = 1
    clock: Callable[[], float] = perf_counter


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found, and the models that there are no figures of, each with the reason."""

    profile: Profile
    skipped: tuple[tuple[str, str], ...]


def measure(
    plan: Plan,
    samples: Mapping[str, Mapping[str, object]],
    config: MeasureConfig | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Return the figures of a plan's models; `samples` are inputs of some pipelines by name.

    Raises LoadError when the plan does not load here, Fault when a sample does not run.
    """
    config = config or MeasureConfig()
    server = LoadConfig(workers=2, threads=config.threads)  # whose sessions do not wait busily
    stages = Stages(plan, server)
    try:
        return _Measuring(plan, stages, config).measured(samples, progress)
    finally:
        stages.close()


def machine(threads: int) -> Machine:
    """Return what this machine is called, as figures are filed by it."""
    return Machine(_processor(), len(os.sched_getaffinity(0)), _runtime(), threads)


class _Measuring:
    def __init__(self, plan: Plan, stages: Stages, config: MeasureConfig) -> None:
        self.plan, self.stages, self.config = plan, stages, config
        self.rows: dict[int, list[Value]] = {}  # of each model, one row as the samples give it

    def measured(
        self, samples: Mapping[str, Mapping[str, object]], progress: Progress | None
    ) -> Measured:
        took = [time for name, inputs in samples.items() for time in self._request(name, inputs)]
        models: dict[tuple[str, str], tuple[int, ModelSegment]] = {}
        for index, segment in enumerate(self.plan.segments):
            if isinstance(segment, ModelSegment) and segment.kind != "kernel":
                models.setdefault((segment.model, segment.device), (index, segment))
        times: list[ModelTimes] = []
        skipped: list[tuple[str, str]] = []
        for done, (index, segment) in enumerate(models.values()):
            if progress is not None:
                progress(done, len(models), segment.name)
            try:
                times.append(self._model(index, segment))
            except StageError as error:
                skipped.append((segment.name, error.message))
        if progress is not None:
            progress(len(models), len(models), "")
        profile = Profile(machine(self.config.threads), tuple(times), tuple(took))
        return Measured(profile, tuple(skipped))

    def _request(self, name: str, inputs: Mapping[str, object]) -> list[StageTime]:
        """Run a request several times; return what its stages took in the median.

        It is the first of its sequence where the pipeline keeps state, and has no deadline.
        """
        plan = self.plan.pipeline(name)
        stages = [
            _Observed(stage, self.rows) if isinstance(stage, ModelStage) else stage
            for stage in self.stages.all
        ]
        prepared = Prepared(plan, 0, stages, self.stages.transfer, told=self.stages.told)
        block, presenters = prepared.wanted(None)
        runs: list[dict[str, tuple[int, float]]] = []
        for _ in range(1 + _REQUESTS):
            tally = Tally(1, len(stages))
            inline = Inline(prepared, tally, self.config.clock, None)
            flow = prepared.start_first(prepared.accept(inputs), block)
            if plan.stream:
                for _ in inline.emitted(flow, presenters):
                    pass
            else:
                inline.finish(flow)
            sums: dict[str, tuple[int, float]] = {}
            for stage, cell in zip(stages, tally.stages, strict=True):
                if cell.executions:
                    rows, seconds = sums.get(stage.name, (0, 0.0))
                    sums[stage.name] = (rows + cell.rows, seconds + cell.compute)
            runs.append(sums)
        return [
            StageTime(name, stage, rows, statistics.median(run[stage][1] for run in runs[1:]))
            for stage, (rows, _) in runs[1].items()
            if all(stage in run for run in runs)  # a limit may cut a run short
        ]

    def _model(self, index: int, segment: ModelSegment) -> ModelTimes:
        """Return the times of one model; raises StageError when it cannot run alone."""
        stage = self.stages.all[index]
        if not isinstance(stage, ModelStage) or segment.home == "sim":
            raise StageError("`sim` is for tests, and its times mean nothing")
        items = self.rows.get(index) or self._placed(segment)
        run = partial(self._run, stage, segment, items)
        sizes, stopped = self._sizes(run, segment.stackable)
        times: dict[int, list[float]] = {rows: [] for rows in sizes}
        spent = 0.0
        while len(times[1]) < _LEAST or (spent < self.config.seconds / 2 and len(times[1]) < _MOST):
            # in turns, so that whatever else the machine does falls on all sizes
            for rows, found in times.items():
                found.append(run(rows))
                spent += found[-1]
        timings = tuple(Timing(rows, statistics.median(found)) for rows, found in times.items())
        shapes = tuple(
            f"{field.name} {_described(item)}"
            for field, item in zip(segment.signature.params, items, strict=True)
        )
        return ModelTimes(segment.model, segment.name, segment.device, shapes, timings, stopped)

    def _sizes(self, run: Callable[[int], float], stackable: bool) -> tuple[list[int], str | None]:
        """Run each size once; return those that work and fit into the time, and why no more."""
        if not stackable:
            run(1)
            return [1], "the model has no batch axis"
        sizes: list[int] = []
        round_seconds = last = 0.0  # of one run of every size, of the last of them
        for rows in self.config.rows:
            expected = last * rows / sizes[-1] if sizes else 0.0
            if (round_seconds + expected) * (1 + _LEAST) > self.config.seconds:
                return sizes, f"{rows} rows take longer than the {self.config.seconds:g} s for it"
            try:
                last = run(rows)
            except StageError as error:
                if not sizes:
                    raise
                return sizes, f"with {rows} rows {error.message}"
            sizes.append(rows)
            round_seconds += last
        return sizes, None

    def _run(
        self, stage: ModelStage, segment: ModelSegment, items: list[Value], rows: int
    ) -> float:
        """Return the seconds of one execution of equal rows, which are stacked as they would be."""
        columns = [  # anew each time: a column keeps its stack
            Rows.shared(item, rows) if axis is None else Rows.of([item] * rows)
            for item, axis in zip(items, segment.input_axes, strict=True)
        ]
        start = self.config.clock()
        for column in stage.execute(columns, rows):
            if isinstance(made := column.item(0), View):
                made.ready.synchronize()
        return self.config.clock() - start

    def _placed(self, segment: ModelSegment) -> list[Value]:
        """Return a made-up row where a model takes it."""
        device, name = self.stages.device(segment.home), segment.name
        stream = device.stream()
        row = stand_ins(segment, self.config.size)
        return [
            item if item is None else device.upload(as_array(item), name, stream) for item in row
        ]


class _Observed:
    """A model that keeps one row of what it is first given, in `rows` by its number."""

    def __init__(self, stage: Stage, rows: dict[int, list[Value]]) -> None:
        self.name, self.index, self.policy = stage.name, stage.index, stage.policy
        self.run_together, self.split = stage.run_together, stage.split
        self._stage, self._rows = stage, rows

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        if self.index not in self._rows and count:
            self._rows[self.index] = _middle_row(columns, count)
        return self._stage.run(columns, count, cell)


def _middle_row(columns: Sequence[Rows], count: int) -> list[Value]:
    """Return the row of middle size."""
    rows = [[column.item(row) for column in columns] for row in range(count)]
    return sorted(rows, key=lambda row: sum(map(_size, row)))[count // 2]


def _size(value: Value) -> int:
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _described(value: Value) -> str:
    if value is None:
        return "none"
    if isinstance(value, View):
        return f"{value.dtype}{list(value.shape)}"
    array = as_array(value)
    return f"{array.dtype}{list(array.shape)}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _runtime() -> str:
    for package in ("onnxruntime-gpu", "onnxruntime"):
        try:
            return f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            continue
    return "none"
