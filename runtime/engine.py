"""The engine: a plan, loaded, that answers requests; where front ends and the core meet.

`call` runs a request in the caller's thread without a queue or a lock. `submit` hands it to the
worker threads of `threads.py`, which are started at the first use.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ..compiler.plan import ModelSegment, Plan
from .calls import Calls
from .crew import Crew
from .division import Share
from .engine_config import EngineConfig
from .inside import Inside
from .jobs import RunBatch
from .load import Progress, Stages
from .meetings import Meetings
from .metrics import Metrics, Snapshot
from .observe.batches import run_watched_batch
from .observe.recording import Recording
from .observe.watch import Watched
from .own_models import own_models
from .prepared import Prepared, with_stages
from .request import Code, Fault, InSequence, Request, Response
from .room import Room
from .rounds import Rounds
from .scheduler import Scheduler
from .shared import Shared
from .stage import Stage, needs_of
from .submissions import Submissions
from .threads import Workers
from .turns import Sequences
from .units import Units

Result = TypeVar("Result")


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
        counted: Collection[str] = (),
    ) -> None:
        """`sequences` are those of another engine with the same plan, None for its own; `shared`
        holds the models that it has in common with other engines; of pipelines that are `counted`
        it counts what they ask of each stage."""
        self.plan = plan
        self.config = config or EngineConfig()
        self._clock = self.config.clock
        self._loaded = self._clock()
        self.nested = self.config.nested or own_models(self, self._clock)
        loading = replace(self.config.loading(), nested=self.nested)
        self._stages = Stages(plan, loading, progress, shared)
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
                self._stages.chains[pipeline.name],
                counted=pipeline.name in counted,
            )
            for i, pipeline in enumerate(plan.pipelines)
        }
        self._metrics = Metrics(
            [pipeline.name for pipeline in plan.pipelines],
            [stage.name for stage in self._stages.all],
        )
        for pipeline in self._pipelines.values():
            for chain in pipeline.chains:
                chain.count(self._metrics.tally, pipeline.calls)
        self._room = Room(self.config.bytes_in_flight)
        self._units = self.config.units or Units()
        self._stock = self._units.join(plan.resources, needs_of(self._stages.all))
        self._crew = Crew(self._start())
        self._inside = inside = Inside(self._metrics, self._crew)
        calls = Calls(self._metrics, inside, self._clock, self._room)
        submissions = Submissions(calls, self._metrics, inside, self._clock, self._crew)
        self.run, self.stream, self.count_refused = calls.run, calls.stream, calls.count_refused
        self.meet = Meetings(calls, inside, self._room, self._clock).run
        self.dispatch, self.open_stream = submissions.dispatch, submissions.open_stream

    def call(self, request: Request, *, bounded: bool = False) -> Response:
        """Answer in this thread; raises Fault. With `bounded` its inputs take room as those of a
        request that is submitted."""
        pipeline = self.pipeline(request.pipeline)
        outputs = self.run(
            pipeline,
            request.inputs,
            request.outputs,
            request.deadline,
            request.sequence,
            request,
            request.priority,
            bounded=bounded,
        )
        return Response(request.id, outputs)

    def rehearse(self, pipeline: Prepared, inputs: Mapping[str, object]) -> None:
        """Run once in this thread, before anybody is served, and count nothing; raises Fault."""
        named = any(one.name == "id" for one in pipeline.plan.controls)
        sequence = InSequence("1" if named else 1, start=True, end=True)
        try:
            with self._stages.rehearsing():
                self.run(pipeline, inputs, sequence=sequence if pipeline.sequences else None)
        finally:
            self._metrics.forget()

    def pipeline(self, name: str) -> Prepared:
        """Return a pipeline ready to run; raises Fault NOT_FOUND."""
        found = self._pipelines.get(name)
        if found is None:
            known = ", ".join(f"`{one}`" for one in self._pipelines)
            raise Fault(Code.NOT_FOUND, f"there is no pipeline `{name}`; this plan has {known}")
        return found

    def watched(self, name: str, recording: Recording) -> Prepared:
        """Return a pipeline ready to run once, while it is written down in `recording`."""
        self._crew.run_with(partial(run_watched_batch, self._clock))
        return Watched(self.pipeline(name), recording)

    def refuse(self) -> None:
        """Take no new requests."""
        self._inside.closed = True

    def stand_beside(self, other: "Engine") -> None:
        """Drain together with another engine of the same plan: what a request at one of them asks
        the other for is let in."""
        self._inside.beside, other._inside.beside = (other._inside,), (self._inside,)

    def end_streams(self) -> None:
        """Wait no more for the readers of streams, who may never come back: whoever does finds the
        stream ended, and nobody waits for its turn in a sequence."""
        self._inside.end_streams()
        if self._crew.workers is not None:
            self._crew.workers.end_streams()

    def cheap(self, name: str) -> bool:
        """Whether a request takes so little time that the receiving thread had better run it."""
        return self.pipeline(name).cheap

    def submit(
        self, request: Request, *, runs: bool = False, rounds: Rounds | None = None
    ) -> Future[Response]:
        """Answer in a worker thread, and let its rows meet those of other requests.

        Raises Fault at once when the request does not fit (INVALID, NOT_FOUND) or there is no
        room (OVERLOADED); what fails later is the future's exception. Cancelling the future drops
        the work that has not begun. `runs` says that this thread does nothing else until then: it
        runs what a worker would begin now. `rounds` are those in which it reads requests, if it
        does.
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
            runs=runs,
            rounds=rounds,
        )

    def drain(self, timeout: float | None = None) -> bool:
        """Take no new requests and wait for those under way; False when `timeout` s are over.

        Exact: whoever is let in is either inside a method here or known to the workers.
        """
        self.require_outside()
        until = None if timeout is None else time.monotonic() + timeout
        self._inside.closed = True
        if not self._inside.wait(timeout):
            return False
        rest = None if until is None else max(0.0, until - time.monotonic())
        return self._crew.workers is None or self._crew.workers.drain(rest)

    def settle(self, timeout: float | None = None) -> bool:
        """Wait until the workers have answered all they have and let go of every value, as they do
        a moment after the answer; False when `timeout` s are over. It may be asked again then."""
        self.require_outside()
        return self._crew.workers is None or self._crew.workers.settle(timeout)

    def require_outside(self) -> None:
        """Raise RuntimeError amid one of its own requests, which would wait for itself."""
        in_worker = self._crew.workers is not None and self._crew.workers.here
        if in_worker or self._metrics.tally().inside:
            raise RuntimeError(
                "what answers requests cannot be closed in a stage, nor in a callback of a future, "
                "of its own; let the thread that has loaded it close it"
            )

    @property
    def unready(self) -> tuple[str, ...]:
        """Why it cannot answer at this moment, each reason a sentence; none when it can."""
        if self._inside.closed:
            return ("it is closed",)
        return tuple(f"the workers of stage `{one}` are down" for one in self._stages.down())

    @property
    def quiet(self) -> bool:
        """Whether no request is with the workers; a hint, read without a lock."""
        return self._crew.workers is None or self._crew.workers.quiet

    @property
    def age(self) -> float:
        """For how many seconds it has counted."""
        return self._clock() - self._loaded

    @property
    def metrics(self) -> Snapshot:
        """What has happened so far."""
        workers = self._crew.workers
        waiting = () if workers is None else workers.pending()
        levels = () if workers is None else workers.by_level()
        queued = () if workers is None else workers.queued()
        counted = self._metrics.snapshot(waiting, levels, queued)
        return with_stages(counted, self._pipelines.values())

    @property
    def shares(self) -> dict[str, Share]:
        """What a run of each model may take of the cores, by the name of its stage."""
        found = zip(self.plan.segments, self._stages.shares, strict=True)
        return {segment.name: share for segment, share in found if share is not None}

    def forget(self) -> None:
        """Let no plan that is loaded later share the processes of this one."""
        self._stages.forget()

    def close(self) -> None:
        """Fail what waits and give back what the plan needed; `drain` first to finish it."""
        self.require_outside()
        self._inside.closed = True
        self.end_streams()
        for sequences in self.sequences.values():
            sequences.close()
        self._stages.stop()
        self._crew.close()
        self._units.part(self._stock)
        if self._units is not self.config.units:
            self._units.close()
        self._stages.close()

    def _sequences(self) -> dict[str, Sequences]:
        return {
            pipeline.name: Sequences(pipeline, self.config.sequences, self._clock)
            for pipeline in self.plan.pipelines
            if pipeline.idle is not None
        }

    def _start(self) -> Callable[[RunBatch], Workers]:
        """Return what starts workers, which does not hold the engine."""
        return partial(
            _start,
            list(self._pipelines.values()),
            self._stages.all,
            self.plan,
            self.config,
            self._metrics,
            tuple(self.sequences.values()),
            self._room,
            self._units,
        )


def _start(
    pipelines: list[Prepared],
    stages: Sequence[Stage],
    plan: Plan,
    config: EngineConfig,
    metrics: Metrics,
    sequences: tuple[Sequences, ...],
    room: Room,
    units: Units,
    run: RunBatch,
) -> Workers:
    scheduler = Scheduler(pipelines, stages, config.intake(), units, room)
    threads = config.worker_threads() + _waiting(plan)
    return Workers(scheduler, metrics, config.clock, threads, sequences, run)


def _waiting(plan: Plan) -> int:
    """Return how many workers may be waiting at one time for a model that asks other models, for
    which others must be left."""
    return sum(
        segment.instances or 1
        for segment in plan.segments
        if isinstance(segment, ModelSegment) and segment.kind == "triton_python"
    )
