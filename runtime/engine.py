"""The engine: a plan, loaded, that answers requests; where front ends and the core meet.

`call` runs a request in the caller's thread without a queue or a lock. `submit` hands it to the
worker threads of `threads.py`, which are started at the first use.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NoReturn, TypeVar

from ..compiler.plan import Plan
from ..stdlib.op import Item
from .blame import own_fault
from .flow import ONE
from .inline import Inline, call_all
from .load import Progress, Stages
from .metrics import Metrics, Snapshot
from .pending import Pending
from .prepared import Prepared, nothing, present
from .request import Code, Fault, InSequence, Request, RequestError, Response
from .rows import Rows
from .scheduler import Scheduler
from .streams import Stream, gathered, require_stream
from .task import Task
from .threads import Workers
from .turns import Sequences

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """`workers` threads run what is submitted (None: one a core); `intra_op_threads` are those of
    one model run (None: the cores divided by the workers). `queue_size` bounds the requests of
    one pipeline that wait to start, where its schedule says nothing; `sequences` how many of one
    pipeline are kept at once. `clock` is monotonic, in seconds; deadlines are told on it.
    `tensorrt` lets TensorRT run what stands on a GPU: faster, slower to load, other last bits."""

    workers: int | None = None
    intra_op_threads: int | None = None
    queue_size: int = 1024
    sequences: int = 4096
    clock: Callable[[], float] = time.monotonic
    tensorrt: bool = False

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
        sequences: Mapping[str, Sequences] | None = None,
    ) -> None:
        """`sequences` are those of another engine with the same plan, None for its own."""
        self.plan = plan
        self.config = config or EngineConfig()
        workers, threads = self.config.resolved()
        self._clock = self.config.clock
        self._stages = Stages(
            plan,
            threads,
            alone=workers == 1,
            progress=progress,
            tensorrt=self.config.tensorrt,
        )
        self.sequences = sequences if sequences is not None else self._sequences()
        self._pipelines = {
            pipeline.name: Prepared(
                pipeline,
                i,
                self._stages.all,
                self._stages.transfer,
                self.sequences.get(pipeline.name),
            )
            for i, pipeline in enumerate(plan.pipelines)
        }
        self._metrics = Metrics(
            [pipeline.name for pipeline in plan.pipelines],
            [stage.name for stage in self._stages.all],
        )
        self._closed = False
        self._starting = threading.Lock()
        self._workers: Workers | None = None

    def call(self, request: Request) -> Response:
        """Answer in this thread; raises Fault."""
        pipeline = self.pipeline(request.pipeline)
        outputs = self.run(
            pipeline, request.inputs, request.outputs, request.deadline, request.sequence
        )
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
        sequence: InSequence | None = None,
    ) -> dict[str, Item]:
        """Answer in this thread with the results by name; raises Fault.

        Of a stream each result is the list of what it has emitted.
        """
        if self._closed:
            raise Fault(Code.UNAVAILABLE, "the engine takes no more requests")
        tally = self._metrics.tally()
        start = perf_counter()
        try:
            columns = pipeline.accept(inputs)
            block, presenters = pipeline.whole if outputs is None else pipeline.wanted(outputs)
            plan, clock = pipeline.plan, self._clock
            group = ONE if plan.batch is None else pipeline.group(columns)
            if plan.batch is not None and group.count == 0:
                return nothing(presenters)
            if plan.deadline is not None:
                deadline = pipeline.deadline(clock(), deadline)
            if sequence is not None or pipeline.sequences is not None:
                inline = Inline(pipeline, tally, clock, deadline)
                answer = _in_turn(pipeline, sequence, outputs, columns, inline, deadline)
            elif block.calls is not None:
                answer = present(
                    presenters, call_all(block, columns, group, tally, clock, deadline, plan.name)
                )
            elif plan.stream:
                inline = Inline(pipeline, tally, clock, deadline)
                emitted = list(inline.emitted(block.start(columns, group), presenters))
                answer = gathered(pipeline.names, emitted)
            else:
                inline = Inline(pipeline, tally, clock, deadline)
                answer = present(presenters, inline.finish(block.start(columns, group)))
        except Exception as error:
            self._refuse(pipeline, error)
        seconds = perf_counter() - start
        cell = tally.pipelines[pipeline.index]
        cell.successes += 1
        cell.duration += seconds
        pipeline.measured(seconds)
        return answer

    def stream(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        deadline: float | None = None,
    ) -> Iterator[dict[str, Item]]:
        """Answer in this thread, one response of a stream after the other, as they are asked for.

        Raises RequestError at once, and other faults where they happen.
        """
        if self._closed:
            raise Fault(Code.UNAVAILABLE, "the engine takes no more requests")
        require_stream(pipeline.plan.name, pipeline.plan.stream)
        try:
            columns = pipeline.accept(inputs)
        except Exception as error:
            self._refuse(pipeline, error)
        if pipeline.plan.deadline is not None:
            deadline = pipeline.deadline(self._clock(), deadline)
        return self._stream(pipeline, columns, deadline)

    def _stream(
        self, pipeline: Prepared, columns: list[Rows], deadline: float | None
    ) -> Iterator[dict[str, Item]]:
        tally, start = self._metrics.tally(), perf_counter()
        block, presenters = pipeline.wanted(None)
        inline = Inline(pipeline, tally, self._clock, deadline)
        try:
            yield from inline.emitted(pipeline.start(columns, block), presenters)
        except Exception as error:
            self._refuse(pipeline, error)
        cell = tally.pipelines[pipeline.index]
        cell.successes += 1
        cell.duration += perf_counter() - start

    def open_stream(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        make: Callable[[dict[str, Item]], Result],
        notify: Callable[[], object],
        *,
        deadline: float | None = None,
        priority: int = 0,
    ) -> Stream[Result]:
        """Answer in a worker thread, one response after the other; `make` makes each of them.

        Raises at once what `dispatch` would. `notify` says that there is something to take.
        """
        workers = self._workers_started()
        require_stream(pipeline.plan.name, pipeline.plan.stream)
        stream = Stream(make, notify, workers.drop, workers.resume)
        try:
            self._admit(workers, pipeline, inputs, None, stream, deadline, priority)
        except Exception as error:
            self._refuse(pipeline, error)
        return stream

    def _admit(
        self,
        workers: Workers,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        outputs: tuple[str, ...] | None,
        answer: "Stream[Result] | Pending[Result]",
        deadline: float | None,
        priority: int,
        sequence: InSequence | None = None,
    ) -> None:
        """Hand a request to the workers, unless it has no rows."""
        columns = pipeline.accept(inputs)
        block, presenters = pipeline.wanted(outputs)
        if pipeline.plan.batch is not None and columns and columns[0].count == 0:
            answer.give(nothing(presenters))
            return
        now, flow, turn = self._clock(), pipeline.start(columns, block), None
        if sequence is not None or pipeline.sequences is not None:
            sequences, turn = pipeline.ask(sequence)
            flow = sequences.start(turn, block, columns, pipeline.group(columns))
        task = Task(
            pipeline,
            flow,
            presenters,
            answer,
            pipeline.deadline(now, deadline),
            priority or 1,
            now,
            turn,
        )
        answer.task = task
        try:
            workers.admit(task)
        except Fault:
            task.leave(False)
            raise

    def cheap(self, name: str) -> bool:
        """Whether a request takes so little time that the receiving thread had better run it."""
        return self.pipeline(name).cheap

    def submit(self, request: Request) -> Future[Response]:
        """Answer in a worker thread, and let its rows meet those of other requests.

        Raises Fault at once when the request does not fit (INVALID, NOT_FOUND) or there is no
        room (OVERLOADED); what fails later is the future's exception. Cancelling the future drops
        the work that has not begun.
        """
        return self.dispatch(
            self.pipeline(request.pipeline),
            request.inputs,
            partial(Response, request.id),
            outputs=request.outputs,
            deadline=request.deadline,
            priority=request.priority,
            sequence=request.sequence,
        )

    def dispatch(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        make: Callable[[dict[str, Item]], Result],
        *,
        outputs: tuple[str, ...] | None = None,
        deadline: float | None = None,
        priority: int = 0,
        sequence: InSequence | None = None,
    ) -> Future[Result]:
        """As `submit`; `make` turns the results by name into the future's result.

        `priority` 1 is the highest and what 0, not given, means.
        """
        workers = self._workers_started()
        pending = Pending(make, workers.drop)
        if pipeline.cheap and workers.quiet:
            # a hop to another thread would take longer than the request itself
            try:
                pending.give(self.run(pipeline, inputs, outputs, deadline))
            except RequestError:
                raise
            except Fault as fault:
                pending.fail(fault)
            return pending
        if pipeline.plan.stream:
            pending = Pending(make, workers.drop, pipeline.names)
        try:
            self._admit(workers, pipeline, inputs, outputs, pending, deadline, priority, sequence)
        except Exception as error:
            self._refuse(pipeline, error)
        return pending

    def drain(self, timeout: float | None = None) -> bool:
        """Take no new requests and wait for those under way; False when `timeout` s are over."""
        self._closed = True
        return self._workers is None or self._workers.drain(timeout)

    @property
    def metrics(self) -> Snapshot:
        """What has happened so far."""
        return self._metrics.snapshot(() if self._workers is None else self._workers.pending())

    def close(self) -> None:
        """Fail what waits and give back what the plan needed; `drain` first to finish it."""
        self._closed = True
        with self._starting:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()
        self._stages.close()

    def _sequences(self) -> dict[str, Sequences]:
        return {
            pipeline.name: Sequences(pipeline, self.config.sequences, self._clock)
            for pipeline in self.plan.pipelines
            if pipeline.idle is not None
        }

    def _workers_started(self) -> Workers:
        if self._closed:
            raise Fault(Code.UNAVAILABLE, "the engine takes no more requests")
        workers = self._workers
        if workers is None:
            with self._starting:
                if self._workers is None:
                    pipelines = list(self._pipelines.values())
                    scheduler = Scheduler(pipelines, self._stages.all, self.config.queue_size)
                    count, _ = self.config.resolved()
                    self._workers = Workers(
                        scheduler, self._metrics, self._clock, count, tuple(self.sequences.values())
                    )
                workers = self._workers
        return workers

    def _refuse(self, pipeline: Prepared, error: Exception) -> NoReturn:
        fault = own_fault(error, pipeline.plan.name)
        self._metrics.tally().pipelines[pipeline.index].fail(fault.code.value)
        if fault is error:
            raise fault
        raise fault from error


def _in_turn(
    pipeline: Prepared,
    sequence: InSequence | None,
    outputs: tuple[str, ...] | None,
    columns: list[Rows],
    inline: Inline,
    deadline: float | None,
) -> dict[str, Item]:
    """Run a request of a sequence when those before it are done, and keep what it leaves."""
    sequences, turn = pipeline.ask(sequence)
    left: list[Rows] | None = None
    try:
        sequences.wait(turn, deadline)
        block, presenters = pipeline.wanted(outputs)
        results = inline.finish(sequences.start(turn, block, columns, pipeline.group(columns)))
        answer = present(presenters, results[: len(presenters)])
        left = results[len(presenters) :]
        return answer
    finally:
        sequences.finish(turn, left)
