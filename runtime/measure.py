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

from ..compiler.plan import OnnxSegment, Plan
from ..compiler.profile import Machine, ModelTimes, Profile, StageTime, Timing
from ..dsl.types import DType, OptionalType, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array
from .blame import blame
from .devices.device import View
from .flow import Work
from .instance import OnnxStage
from .load import Stages
from .metrics import StageCell
from .prepared import Prepared
from .rows import Rows, Value, as_array
from .shapes import Bindings, evaluate, names
from .stage import StageError

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
    stages = Stages(plan, config.threads, alone=False, progress=None)
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
        self.rows: dict[int, list[Value]] = {}  # of each stage, one row as the samples give it

    def measured(
        self, samples: Mapping[str, Mapping[str, object]], progress: Progress | None
    ) -> Measured:
        took = [time for name, inputs in samples.items() for time in self._request(name, inputs)]
        models: dict[tuple[str, str], tuple[int, OnnxSegment]] = {}
        for index, segment in enumerate(self.plan.segments):
            if isinstance(segment, OnnxSegment):
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
        """Run a request several times; return what its stages took in the median."""
        plan = self.plan.pipeline(name)
        prepared = Prepared(plan, 0, self.stages.all, self.stages.transfer)
        runs: list[dict[str, tuple[int, float]]] = []
        for _ in range(1 + _REQUESTS):
            cells = [StageCell() for _ in self.stages.all]
            self._drive(prepared, inputs, cells)
            sums: dict[str, tuple[int, float]] = {}
            for stage, cell in zip(self.stages.all, cells, strict=True):
                if cell.executions:
                    rows, seconds = sums.get(stage.name, (0, 0.0))
                    sums[stage.name] = (rows + cell.rows, seconds + cell.compute)
            runs.append(sums)
        return [
            StageTime(name, stage, rows, statistics.median(run[stage][1] for run in runs[1:]))
            for stage, (rows, _) in runs[1].items()
        ]

    def _drive(
        self, prepared: Prepared, inputs: Mapping[str, object], cells: Sequence[StageCell]
    ) -> None:
        block, _ = prepared.wanted(None)
        flow = prepared.start(prepared.accept(inputs), block)
        try:
            work = next(flow)
            while True:
                if not isinstance(work, Work):
                    work = next(flow)
                    continue
                stage, count = work.stage, work.group.count
                if stage.index not in self.rows and count:
                    self.rows[stage.index] = _middle_row(work.columns, count)
                try:
                    results = stage.run(work.columns, count, cells[stage.index])
                except Exception as error:
                    work = flow.throw(blame(error, work, prepared.plan.name))
                else:
                    work = flow.send(results)
        except StopIteration:
            return

    def _model(self, index: int, segment: OnnxSegment) -> ModelTimes:
        """Return the times of one model; raises StageError when it cannot run alone."""
        stage = self.stages.all[index]
        if not isinstance(stage, OnnxStage) or segment.device == "sim":
            raise StageError("`sim` is for tests, and its times mean nothing")
        items = self.rows.get(index) or self._stand_ins(segment)
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

    def _run(self, stage: OnnxStage, segment: OnnxSegment, items: list[Value], rows: int) -> float:
        """Return the seconds of one execution of equal rows, which are stacked as they would be."""
        columns = [  # anew each time: a column keeps its stack
            Rows.shared(item, rows) if axis is None else Rows.of([item] * rows)
            for item, axis in zip(items, segment.input_axes, strict=True)
        ]
        start = self.config.clock()
        stage.execute(columns, rows)
        return self.config.clock() - start

    def _stand_ins(self, segment: OnnxSegment) -> list[Value]:
        """Return a row as the signature describes it, its named sizes at the default."""
        params = segment.signature.params
        bindings: Bindings = dict.fromkeys(
            names([field.type for field in params]), self.config.size
        )
        random = np.random.default_rng(0)
        return [_stand_in(field.type, bindings, self.config.size, random) for field in params]


def _stand_in(kind: Type, bindings: Bindings, size: int, random: np.random.Generator) -> Value:
    match kind:
        case OptionalType(item=item):
            return _stand_in(item, bindings, size, random)
        case TensorType(dtype=dtype, dims=dims):
            found = (evaluate(dim, bindings) for dim in dims)
            shape = tuple(size if one is None else one for one in found)
            return _filled(dtype, shape, random)
        case _:
            raise StageError(f"a {kind} cannot be made up: give a sample")


def _filled(dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    if dtype is DType.STRING:
        return np.full(shape, "text", object)
    if dtype is DType.BYTES:
        return np.full(shape, b"bytes", object)
    if dtype.is_float:
        return random.standard_normal(shape).astype(to_numpy(dtype))
    return np.ones(shape, to_numpy(dtype))  # an index that is in every table but an empty one's


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
