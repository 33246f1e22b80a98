"""The engine: a plan, loaded, that answers requests; where front ends and the core meet.

`call` runs a request in the caller's thread without a queue or a lock. `submit` hands it to the
worker threads of `threads.py`, which are started at the first use.
"""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from time import perf_counter

from ..compiler.plan import Plan
from ..stdlib.op import Item
from .blame import blame, late, own_fault
from .flow import Flow
from .load import Progress, Stages
from .metrics import Metrics, Snapshot, Tally
from .prepared import Prepared, nothing, present
from .request import Code, Fault, Request, Response
from .rows import Rows

CHEAP_SECONDS = 200e-6
"""Below this a hop to another thread costs about as much as the request."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """`workers` threads run what is submitted (None: one a core); `intra_op_threads` are those of
    one model run (None: the cores divided by the workers). `queue_size` bounds the requests of
    one pipeline that wait to start, where its schedule says nothing. `clock` is monotonic, in
    seconds; deadlines are told on it."""

    workers: int | None = None
    intra_op_threads: int | None = None
    queue_size: int = 1024
    clock: Callable[[], float] = time.monotonic

    def resolved(self) -> tuple[int, int]:
        """Return the numbers of workers and of threads for a model."""
        cores = len(os.sched_getaffinity(0))
        workers = self.workers if self.workers is not None else cores
        return workers, self.intra_op_threads or max(1, cores // workers)


class Engine:
    """Loads what a plan needs; `close` gives it back. Calls may come from any thread."""

    def __init__(
        self,
        plan: Plan,
        config: EngineConfig | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        self.plan = plan
        self.config = config or EngineConfig()
        workers, threads = self.config.resolved()
        self._clock = self.config.clock
        self._stages = Stages(plan, threads, alone=workers == 1, progress=progress)
        self._pipelines = {
            pipeline.name: Prepared(pipeline, i, self._stages.all, self._stages.transfer)
            for i, pipeline in enumerate(plan.pipelines)
        }
        self._metrics = Metrics(
            [pipeline.name for pipeline in plan.pipelines],
            [stage.name for stage in self._stages.all],
        )
        self._closed = False

    def call(self, request: Request) -> Response:
        """Answer in this thread; raises Fault."""
        pipeline = self.pipeline(request.pipeline)
        outputs = self.run(pipeline, request.inputs, request.outputs, request.deadline)
        return Response(request.id, outputs)

    def pipeline(self, name: str) -> Prepared:
        """Return a pipeline ready to run; raises Fault NOT_FOUND."""
        found = self._pipelines.get(name)
        if found is None:
            known = ", ".join(f"`{one}`" for one in self._pipelines)
            raise Fault(Code.NOT_FOUND, f"there is no pipeline `{name}`; this plan has {known}")
        return found

    def run(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        outputs: tuple[str, ...] | None = None,
        deadline: float | None = None,
    ) -> dict[str, Item]:
        """Answer in this thread with the results by name; raises Fault."""
        if self._closed:
            raise Fault(Code.UNAVAILABLE, "the engine is closed", pipeline=pipeline.plan.name)
        tally = self._metrics.tally()
        start = perf_counter()
        try:
            columns = pipeline.accept(inputs)
            block, presenters = pipeline.wanted(outputs)
            if pipeline.plan.batch is not None and columns and columns[0].count == 0:
                return nothing(presenters)
            if pipeline.plan.deadline is not None:
                own = self._clock() + pipeline.plan.deadline
                deadline = own if deadline is None else min(own, deadline)
            results = self._drive(pipeline, pipeline.start(columns, block), tally, deadline)
            answer = present(presenters, results)
        except Exception as error:
            fault = own_fault(error, pipeline.plan.name)
            tally.pipelines[pipeline.index].fail(fault.code.value)
            if fault is error:
                raise
            raise fault from error
        seconds = perf_counter() - start
        cell = tally.pipelines[pipeline.index]
        cell.successes += 1
        cell.duration += seconds
        pipeline.measured(seconds)
        return answer

    def _drive(
        self, pipeline: Prepared, flow: Flow, tally: Tally, deadline: float | None
    ) -> list[Rows]:
        cells = tally.stages
        try:
            work = next(flow)
            while True:
                if deadline is not None and self._clock() >= deadline:
                    raise late(pipeline.plan.name, work)
                stage = work.stage
                try:
                    results = stage.run(work.columns, work.group.count, cells[stage.index])
                except Exception as error:
                    work = flow.throw(blame(error, work, pipeline.plan.name))
                else:
                    work = flow.send(results)
        except StopIteration as stop:
            return stop.value

    def cheap(self, name: str) -> bool:
        """Whether a request takes so little time that the receiving thread had better run it."""
        average = self.pipeline(name).average
        return average is not None and average < CHEAP_SECONDS

    def submit(self, request: Request) -> Future[Response]:
        """Answer in another thread; raises Fault OVERLOADED at once when too many wait."""
        raise NotImplementedError

    @property
    def metrics(self) -> Snapshot:
        """What has happened so far."""
        return self._metrics.snapshot()

    def close(self) -> None:
        """Give back what the plan needed."""
        self._closed = True
        self._stages.close()
