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
from .admission import Intake
from .blame import own_fault
from .context import Context
from .devices.device import Device
from .division import Share
from .flow import ONE
from .inline import Emitted, Inline, answer_in_turn, call_all, emit_in_turn
from .jobs import RunBatch, run_batch
from .load import LoadConfig, Progress, Stages
from .metrics import Metrics, Snapshot, Tally
from .observe.batches import run_watched_batch
from .observe.recording import Recording
from .observe.watch import Watched
from .pending import Pending
from .prepared import Prepared, nothing, present, with_caches
from .request import Code, EngineClosed, Fault, InSequence, Request, RequestError, Response
from .rows import Rows, size_of
from .scheduler import Scheduler
from .shared import Shared
from .streams import Stream, gathered, require_stream, unread
from .task import Task
from .threads import Workers
from .turns import Sequences

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """`workers` threads run what is submitted (None: one a core); `intra_op_threads` are those of
    one model run (None: the cores divided, `division.py`). `queue_size` bounds the requests of
    one pipeline that wait to start, where its schedule says nothing; `sequences` how many of one
    pipeline are kept at once; `bytes_in_flight` the inputs of all requests that were submitted and
    have no answer yet. With `predict` those that cannot be in time are refused, or dropped before
    they run. `clock` is monotonic, in seconds; deadlines are told on it.
    `tensorrt` lets TensorRT run what stands on a GPU: faster, slower to load, other last bits.
    `devices` are open already and stay so; others are opened as the plan asks for them."""

    workers: int | None = None
    intra_op_threads: int | None = None
    queue_size: int = 1024
    bytes_in_flight: int = 1 << 30
    predict: bool = True
    sequences: int = 4096
    clock: Callable[[], float] = time.monotonic
    tensorrt: bool = False
    devices: tuple[Device, ...] = ()

    def worker_threads(self) -> int:
        """Return the number of workers."""
        return self.workers if self.workers is not None else len(os.sched_getaffinity(0))

    def intake(self) -> Intake:
        """Return how much is taken in."""
        return Intake(self.queue_size, self.bytes_in_flight, self.predict)

    def loading(self) -> LoadConfig:
        """Return what a plan is loaded for."""
        return LoadConfig(
            self.worker_threads(),
            self.intra_op_threads,
            self.tensorrt,
            warm=True,
            devices=self.devices,
        )


class Engine:
    """Loads what a plan needs; `close` gives it back. Calls may come from any thread."""

    def __init__(
        self,
        plan: Plan,
        config: EngineConfig | None = None,
        *,
        progress: Progress | None = None,
        sequences: Mapping[str, Sequences] | None = None,
        shared: Shared | None = None,
    ) -> None:
        """`sequences` are those of another engine with the same plan, None for its own; `shared`
        holds the models that it has in common with other engines."""
        self.plan = plan
        self.config = config or EngineConfig()
        self._clock = self.config.clock
        self._loaded = self._clock()
        self._stages = Stages(plan, self.config.loading(), progress, shared)
        self.sequences = sequences if sequences is not None else self._sequences()
        self._pipelines = {
            pipeline.name: Prepared(
                pipeline,
                i,
                self._stages.all,
                self._stages.transfer,
                self.sequences.get(pipeline.name),
                self._stages.caches,
                self._stages.told,
            )
            for i, pipeline in enumerate(plan.pipelines)
        }
        self._metrics = Metrics(
            [pipeline.name for pipeline in plan.pipelines],
            [stage.name for stage in self._stages.all],
        )
        self._closed = False
        self._starting = threading.Lock()
        self._left = threading.Condition()
        self._streams: dict[object, int] = {}  # read in their callers' threads: which
        self._unread: dict[object, Emitted] = {}  # of them those whose readers ask for nothing
        self._ended = False
        self._run_batch: RunBatch = run_batch
        self._workers: Workers | None = None

    def call(self, request: Request) -> Response:
        """Answer in this thread; raises Fault."""
        pipeline = self.pipeline(request.pipeline)
        outputs = self.run(
            pipeline,
            request.inputs,
            request.outputs,
            request.deadline,
            request.sequence,
            request,
            request.priority,
        )
        return Response(request.id, outputs)

    def pipeline(self, name: str) -> Prepared:
        """Return a pipeline ready to run; raises Fault NOT_FOUND."""
        found = self._pipelines.get(name)
        if found is None:
            known = ", ".join(f"`{one}`" for one in self._pipelines)
            raise Fault(Code.NOT_FOUND, f"there is no pipeline `{name}`; this plan has {known}")
        return found

    def watched(self, name: str, recording: Recording) -> Prepared:
        """Return a pipeline ready to run once, while it is written down in `recording`."""
        with self._starting:
            self._run_batch = partial(run_watched_batch, self._clock)
            if self._workers is not None:
                self._workers.run_batch = self._run_batch
        return Watched(self.pipeline(name), recording)

    def run(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        outputs: tuple[str, ...] | None = None,
        deadline: float | None = None,
        sequence: InSequence | None = None,
        request: Request | None = None,
        priority: int = 0,
    ) -> dict[str, Item]:
        """Answer in this thread with the results by name; raises Fault.

        Of a stream each result is the list of what it has emitted. Stages that ask for the request
        are told of `request`, and of `priority`.
        """
        tally = self._metrics.tally()
        start = perf_counter()
        tally.inside += 1  # before it looks whether the engine is closed, so that `drain` sees it
        try:
            if self._closed:
                raise EngineClosed
            columns = pipeline.accept(inputs)
            block, presenters = pipeline.whole if outputs is None else pipeline.wanted(outputs)
            plan, clock = pipeline.plan, self._clock
            group = ONE if plan.batch is None else pipeline.group(columns)
            if plan.batch is not None and group.count == 0:
                tally.pipelines[pipeline.index].count_nothing()
                return nothing(presenters)
            if plan.deadline is not None:
                deadline = pipeline.deadline(clock(), deadline)
            if block.calls is not None and pipeline.sequences is None and sequence is None:
                answer = present(
                    presenters, call_all(block, columns, group, tally, clock, deadline, plan.name)
                )
            else:
                inline = Inline(pipeline, tally, clock, deadline)
                told = pipeline.context(request, priority, deadline, clock)
                if sequence is not None or pipeline.sequences is not None:
                    answer = answer_in_turn(
                        pipeline, sequence, outputs, columns, inline, deadline, told
                    )
                elif plan.stream:
                    flow = pipeline.tell(block.start(columns, group), told)
                    answer = gathered(pipeline.names, list(inline.emitted(flow, presenters)))
                else:
                    flow = pipeline.tell(block.start(columns, group), told)
                    answer = present(presenters, inline.finish(flow))
        except Exception as error:
            self._refuse(pipeline, error)
        else:
            seconds = perf_counter() - start
            cell = tally.pipelines[pipeline.index]
            cell.successes += 1
            cell.duration += seconds
            cell.last = start + seconds
            if group is not ONE:
                cell.count_rows(group.count, seconds)
            pipeline.measured(seconds)
            return answer
        finally:
            tally.inside -= 1
            if self._closed:
                self._tell_left()

    def stream(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        deadline: float | None = None,
        sequence: InSequence | None = None,
        request: Request | None = None,
        priority: int = 0,
    ) -> Iterator[dict[str, Item]]:
        """Answer in this thread, one response of a stream after the other, as they are asked for.

        Raises RequestError at once, and other faults where they happen. A request of a sequence has
        its turn from the first that is asked for to the end.
        """
        if self._closed:
            raise EngineClosed
        require_stream(pipeline.plan.name, pipeline.plan.stream)
        try:
            columns = pipeline.accept(inputs)
        except Exception as error:
            self._refuse(pipeline, error)
        if pipeline.plan.deadline is not None:
            deadline = pipeline.deadline(self._clock(), deadline)
        if sequence is not None or pipeline.sequences is not None:
            pipeline.require(sequence)
        told = pipeline.context(request, priority, deadline, self._clock)
        return self._stream(pipeline, columns, deadline, sequence, told)

    def _stream(
        self,
        pipeline: Prepared,
        columns: list[Rows],
        deadline: float | None,
        sequence: InSequence | None,
        told: Context | None,
    ) -> Iterator[dict[str, Item]]:
        tally, start = self._metrics.tally(), perf_counter()
        block, presenters = pipeline.wanted(None)
        inline = Inline(pipeline, tally, self._clock, deadline)
        with self._left:
            if self._closed:
                raise EngineClosed
            self._streams[inline] = threading.get_ident()
        try:
            if sequence is not None:
                emitted = emit_in_turn(pipeline, sequence, columns, inline, deadline, told)
            else:
                flow = pipeline.tell(pipeline.start(columns, block), told)
                emitted = inline.emitted(flow, presenters)
            for outputs in emitted:
                self._hand_out(inline, emitted)
                yield outputs
                self._read_on(inline)
        except Exception as error:
            self._refuse(pipeline, error)
        else:
            cell = tally.pipelines[pipeline.index]
            cell.successes += 1
            cell.last = perf_counter()
            cell.duration += cell.last - start
        finally:
            with self._left:
                left = self._unread.pop(inline, None)
            if left is not None:
                left.close()
            with self._left:
                self._streams.pop(inline, None)
                self._left.notify_all()

    def _hand_out(self, stream: object, emitted: Emitted) -> None:
        """Note that nothing of a stream runs until its reader asks for more."""
        with self._left:
            if not self._ended:
                self._unread[stream] = emitted
                return
        emitted.close()
        raise unread()

    def _read_on(self, stream: object) -> None:
        with self._left:
            if self._unread.pop(stream, None) is None:
                raise unread()

    def refuse(self) -> None:
        """Take no new requests."""
        self._closed = True

    def end_streams(self) -> None:
        """Wait no more for the readers of streams, who may never come back: whoever does finds the
        stream ended, and nobody waits for its turn in a sequence."""
        with self._left:
            self._ended = True
            left, self._unread = self._unread, {}
            for stream in left:
                del self._streams[stream]
        for emitted in left.values():
            emitted.close()
        if self._workers is not None:
            self._workers.end_streams()
        self._tell_left()

    def open_stream(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        make: Callable[[dict[str, Item]], Result],
        notify: Callable[[], object],
        *,
        deadline: float | None = None,
        priority: int = 0,
        sequence: InSequence | None = None,
        request: Request | None = None,
    ) -> Stream[Result]:
        """Answer in a worker thread, one response after the other; `make` makes each of them.

        Raises at once what `dispatch` would. `notify` says that there is something to take.
        """
        tally = self._enter()
        try:
            workers = self._workers_started()
            require_stream(pipeline.plan.name, pipeline.plan.stream)
            stream = Stream(make, notify, workers.drop, workers.resume)
            try:
                self._admit(
                    workers, pipeline, inputs, None, stream, deadline, priority, sequence, request
                )
            except Exception as error:
                self._refuse(pipeline, error)
            if self._ended:
                stream.wait_no_more()
            return stream
        finally:
            self._leave(tally)

    def _admit(
        self,
        workers: Workers,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        outputs: tuple[str, ...] | None,
        answer: "Stream[Result] | Pending[Result]",
        deadline: float | None,
        priority: int,
        sequence: InSequence | None,
        request: Request | None,
    ) -> None:
        """Hand a request to the workers, unless it has no rows."""
        columns = pipeline.accept(inputs)
        block, presenters = pipeline.wanted(outputs)
        rows = columns[0].count if pipeline.plan.batch is not None and columns else 1
        if rows == 0:
            self._metrics.tally().pipelines[pipeline.index].count_nothing()
            answer.give(nothing(presenters))
            return
        now, flow, turn = self._clock(), pipeline.start(columns, block), None
        if sequence is not None or pipeline.sequences is not None:
            _, turn = pipeline.ask(sequence)
            flow = pipeline.start_turn(turn, columns, block)
        if pipeline.told:
            due = pipeline.deadline(now, deadline)
            flow = pipeline.tell(flow, pipeline.context(request, priority, due, self._clock))
        task = Task(
            pipeline,
            flow,
            presenters,
            answer,
            deadline,
            priority,
            now,
            turn,
            size_of(columns),
        )
        answer.task, task.rows = task, rows
        try:
            workers.admit(task, block.opening)
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
            request=request,
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
        request: Request | None = None,
    ) -> Future[Result]:
        """As `submit`; `make` turns the results by name into the future's result.

        `priority` 1 is the highest; 0, not given, is the pipeline's default. Stages that ask for
        the request are told of `request`.
        """
        tally = self._enter()
        try:
            return self._dispatch(
                pipeline, inputs, make, outputs, deadline, priority, sequence, request
            )
        finally:
            self._leave(tally)

    def _dispatch(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        make: Callable[[dict[str, Item]], Result],
        outputs: tuple[str, ...] | None,
        deadline: float | None,
        priority: int,
        sequence: InSequence | None,
        request: Request | None,
    ) -> Future[Result]:
        workers = self._workers_started()
        pending = Pending(make, workers.drop, self._lend)
        if pipeline.cheap and workers.quiet:
            # a hop to another thread would take longer than the request itself
            try:
                answer = self.run(pipeline, inputs, outputs, deadline, None, request, priority)
                pending.give(answer)
            except (RequestError, EngineClosed):
                raise
            except Fault as fault:
                pending.fail(fault)
            return pending
        if pipeline.plan.stream:
            pending = Pending(make, workers.drop, self._lend, pipeline.names)
        try:
            self._admit(
                workers, pipeline, inputs, outputs, pending, deadline, priority, sequence, request
            )
        except Exception as error:
            self._refuse(pipeline, error)
        return pending

    def _lend(self, task: Task) -> None:
        """Let the thread that waits for a request run it, if it has not begun."""
        tally, workers = self._metrics.tally(), self._workers
        tally.inside += 1
        try:
            if workers is not None:
                workers.lend(task, tally)
        finally:
            self._leave(tally)

    def drain(self, timeout: float | None = None) -> bool:
        """Take no new requests and wait for those under way; False when `timeout` s are over.

        Exact: whoever is let in is either inside a method here or known to the workers.
        """
        self.require_outside()
        until = None if timeout is None else time.monotonic() + timeout
        self._closed = True
        with self._left:
            if not self._left.wait_for(lambda: self._inside() == 0, timeout):
                return False
        rest = None if until is None else max(0.0, until - time.monotonic())
        return self._workers is None or self._workers.drain(rest)

    def settle(self, timeout: float | None = None) -> bool:
        """Wait until the workers have answered all they have and let go of every value, as they do
        a moment after the answer; False when `timeout` s are over. It may be asked again then."""
        self.require_outside()
        return self._workers is None or self._workers.settle(timeout)

    def require_outside(self) -> None:
        """Raise RuntimeError amid one of its own requests, which would wait for itself."""
        in_worker = self._workers is not None and self._workers.here
        if in_worker or self._metrics.tally().inside:
            raise RuntimeError(
                "what answers requests cannot be closed in a stage, nor in a callback of a future, "
                "of its own; let the thread that has loaded it close it"
            )

    def _enter(self) -> Tally:
        """Let a request in; raises EngineClosed. `_leave` must follow, in the same thread."""
        tally = self._metrics.tally()
        tally.inside += 1  # before it looks, so that `drain` sees it
        if self._closed:
            self._leave(tally)
            raise EngineClosed
        return tally

    def _leave(self, tally: Tally) -> None:
        tally.inside -= 1
        if self._closed:
            self._tell_left()

    def _tell_left(self) -> None:
        with self._left:
            self._left.notify_all()

    def _inside(self) -> int:
        """Return how many calls are in a method here; none comes in once the engine is closed."""
        here = threading.get_ident()  # it is in here, so it cannot be reading a stream as well
        read = sum(thread != here for thread in self._streams.values())
        return read + self._metrics.inside()

    @property
    def unready(self) -> tuple[str, ...]:
        """Why it cannot answer at this moment, each reason a sentence; none when it can."""
        if self._closed:
            return ("it is closed",)
        return tuple(f"the workers of stage `{one}` are down" for one in self._stages.down())

    @property
    def age(self) -> float:
        """For how many seconds it has counted."""
        return self._clock() - self._loaded

    @property
    def metrics(self) -> Snapshot:
        """What has happened so far."""
        workers = self._workers
        waiting = () if workers is None else workers.pending()
        levels = () if workers is None else workers.by_level()
        queued = () if workers is None else workers.queued()
        counted = self._metrics.snapshot(waiting, levels, queued)
        return with_caches(counted, self._pipelines.values())

    @property
    def shares(self) -> dict[str, Share]:
        """What a run of each model may take of the cores, by the name of its stage."""
        found = zip(self.plan.segments, self._stages.shares, strict=True)
        return {segment.name: share for segment, share in found if share is not None}

    def close(self) -> None:
        """Fail what waits and give back what the plan needed; `drain` first to finish it."""
        self.require_outside()
        self._closed = True
        self.end_streams()
        for sequences in self.sequences.values():
            sequences.close()
        self._stages.stop()
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
        workers = self._workers
        if workers is None:
            with self._starting:
                if self._workers is None:
                    pipelines = list(self._pipelines.values())
                    scheduler = Scheduler(
                        pipelines, self._stages.all, self.config.intake(), self.plan.resources
                    )
                    self._workers = Workers(
                        scheduler,
                        self._metrics,
                        self._clock,
                        self.config.worker_threads(),
                        tuple(self.sequences.values()),
                        self._run_batch,
                    )
                workers = self._workers
        return workers

    def count_refused(self, pipeline: Prepared, error: Exception) -> Fault:
        """Count a request that fails before it is taken in; return what its caller is to learn."""
        fault = own_fault(error, pipeline.plan.name)
        self._metrics.tally().pipelines[pipeline.index].end(fault)
        return fault

    def _refuse(self, pipeline: Prepared, error: Exception) -> NoReturn:
        if isinstance(error, EngineClosed):
            raise error  # nothing of it was done here, so nothing is counted here
        fault = self.count_refused(pipeline, error)
        pipeline.failed(fault)
        if fault is error:
            raise fault
        raise fault from error
