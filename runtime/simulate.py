"""The simulated driver: any interleaving of workers, on a clock that only tests move.

Each step starts or finishes one job of one virtual worker, chosen by a seed; a stage takes the
time that `cost` says, on the fake clock, and does what it does at the beginning of that time or at
its end. The decisions are the scheduler's own, the stages are
real: only threads and time are not.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..compiler.plan import Plan
from ..stdlib.op import Item
from .admission import Intake
from .devices.device import Device
from .inline import Inline, answer_in_turn
from .jobs import Given, Reached, conclude, go_on
from .load import LoadConfig, Stages
from .metrics import Metrics, Snapshot, Tally
from .observe.batches import run_watched_batch
from .observe.recording import Recording
from .observe.watch import Watched
from .prepared import Prepared, with_stages
from .request import Code, Fault, Request
from .rows import size_of
from .scheduler import End, GoOn, Run, Scheduler
from .stage import Stage, needs_of
from .strands import Resume, open_walk, opens
from .task import Strand, Task
from .turns import Sequences
from .units import Units


class Outcome:
    """What became of one request: `outputs` or `fault`, and `at` what time, once it is known.

    A stream with `room` is `parked` whenever it has emitted that many more, until it is resumed.
    """

    def __init__(self) -> None:
        self.outputs: Mapping[str, Item] | None = None
        self.fault: Fault | None = None
        self.at: float | None = None
        self.answers = 0
        self.emitted: list[dict[str, Item]] = []
        self.room: int | None = None
        self.parked = False
        self.task: Task | None = None

    @property
    def done(self) -> bool:
        return self.answers > 0

    def emit(self, outputs: dict[str, Item]) -> bool:
        self.emitted.append(outputs)
        self.parked = self.room is not None and len(self.emitted) % self.room == 0
        return not self.parked

    def take_back(self) -> None:
        raise AssertionError("the simulated driver answers who cancels with a fault")

    def give(self, outputs: dict[str, Item]) -> None:
        self.outputs = outputs
        self.answers += 1

    def fail(self, fault: Fault) -> None:
        self.fault = fault
        self.answers += 1


@dataclass(frozen=True, slots=True)
class _Busy:
    """A virtual worker's job, done already but not finished before `until`."""

    until: float
    finish: Callable[[], None]


class Simulation:
    """An engine with `workers` virtual workers. `cost(stage, rows)` is in seconds. With even seeds
    a worker goes on with one strand at a time, with odd ones with all that can go on. A batch
    takes effect when it begins, or with `late_effects` when it ends: None leaves that to the seed.
    `began` is when what runs at this moment was begun."""

    def __init__(
        self,
        plan: Plan,
        *,
        workers: int = 1,
        seed: int = 0,
        intake: Intake | None = None,
        sequences: int = 4096,
        cost: Callable[[str, int], float] = lambda _stage, _rows: 0.001,
        devices: tuple[Device, ...] = (),
        late_effects: bool | None = None,
    ) -> None:
        self.now = self.began = 0.0
        self._random = random.Random(seed)
        self._cost, self._free = cost, workers
        self._handfuls = seed % 2 == 1
        self._late_effects = seed // 2 % 2 == 1 if late_effects is None else late_effects
        self._stages = Stages(plan, LoadConfig(devices=devices))
        self._pipelines = {
            pipeline.name: Prepared(
                pipeline,
                i,
                self._stages.all,
                self._stages.transfer,
                Sequences(pipeline, sequences, lambda: self.now) if pipeline.idle else None,
                self._stages.caches,
                self._stages.told,
            )
            for i, pipeline in enumerate(plan.pipelines)
        }
        self._metrics = Metrics(
            [pipeline.name for pipeline in plan.pipelines],
            [stage.name for stage in self._stages.all],
        )
        units, stages = Units(), self._stages.all
        units.join(plan.resources, needs_of(stages))
        self._scheduler = Scheduler(
            list(self._pipelines.values()), stages, intake or Intake(), units
        )
        self._busy: list[_Busy] = []
        self.runs: list[tuple[float, str, int]] = []

    @property
    def metrics(self) -> Snapshot:
        """What has been counted so far."""
        return with_stages(self._metrics.snapshot(), self._pipelines.values())

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        return self._scheduler.in_flight

    @property
    def leftovers(self) -> dict[str, int]:
        """What is not as it was before the first request."""
        return self._scheduler.leftovers()

    def record(self, request: Request) -> tuple[Outcome, Recording]:
        """Take in a request that is written down."""
        pipeline = self._pipelines[request.pipeline]
        recording = Recording(pipeline.plan, lambda: self.now, values=True, request_id=request.id)
        return self._submit(request, Watched(pipeline, recording)), recording

    def submit(self, request: Request) -> Outcome:
        """Take in a request at this moment; one that is refused has its fault at once."""
        return self._submit(request, self._pipelines[request.pipeline])

    def _submit(self, request: Request, pipeline: Prepared) -> Outcome:
        outcome = Outcome()
        columns = pipeline.accept(request.inputs)
        block, presenters = pipeline.wanted(request.outputs)
        flow, turn = pipeline.start(columns, block), None
        if pipeline.sequences is not None:
            _, turn = pipeline.ask(request.sequence)
            flow = pipeline.start_turn(turn, columns, block)
        due = pipeline.deadline(self.now, request.deadline)
        told = pipeline.context(request, request.priority, due, lambda: self.now)
        task = Task(
            pipeline,
            pipeline.tell(flow, told),
            presenters,
            outcome,
            request.deadline,
            request.priority,
            self.now,
            turn,
            size_of(columns),
        )
        outcome.task = task
        task.opens = block.opens and opens(task)
        one = block.single and turn is None and not pipeline.plan.stream
        task.ends = self._handfuls and one
        if self._handfuls and task.opens:
            open_walk(task)
        refusal = self._admit(task)
        if refusal is not None:
            task.leave(False)
            outcome.task, outcome.at = None, self.now
            outcome.fail(refusal)
        return outcome

    def _admit(self, task: Task) -> Fault | None:
        sequences, turn = task.pipeline.sequences, task.turn
        if sequences is None or turn is None:
            return self._scheduler.admit(task, self.now, self._free)
        if sequences.ready(turn, lambda: self._scheduler.unpark(task)):
            return self._scheduler.admit(task, self.now, self._free)
        return self._scheduler.park(task, self.now)

    def call(self, request: Request) -> Mapping[str, Item]:
        """Answer in a thread of the caller's own, at this moment; raises Fault. If it is of a
        sequence its turn must have come."""
        pipeline = self._pipelines[request.pipeline]
        columns = pipeline.accept(request.inputs)
        inline = Inline(pipeline, self._metrics.tally(), lambda: self.now, None)
        return answer_in_turn(pipeline, request.sequence, None, columns, inline, None, None)

    def enter(self, strand: Strand, stage: Stage, count: int) -> bool:
        """Let every row wait where it could: that is what is simulated."""
        del strand, count
        return stage.policy is None

    def leave(self, strand: Strand, stage: Stage) -> None:
        """Nothing waits where `enter` said yes."""

    def resume(self, outcome: Outcome) -> None:
        """Read what a parked stream has emitted, so that it goes on."""
        outcome.parked = False
        if outcome.task is not None:
            self._scheduler.strands.resume(outcome.task)

    def cancel(self, outcome: Outcome) -> None:
        """Take a request back."""
        if outcome.task is not None:
            self._answer(outcome.task, Fault(Code.CANCELLED, "the caller cancelled the request"))

    def run(self, until: float | None = None) -> None:
        """Let workers work until nothing is left to do, or the clock shows `until`."""
        while self._step(until):
            pass
        if until is not None:
            self.now = max(self.now, until)
            self._expire()

    def close(self) -> None:
        """Give back what the plan needed."""
        self._stages.close()

    def _step(self, until: float | None) -> bool:
        self._expire()
        finished = [busy for busy in self._busy if busy.until <= self.now]
        can_start = self._free > 0 and self._scheduler.has_job(self.now)
        if finished and (not can_start or self._random.random() < 0.5):
            busy = self._random.choice(finished)
            self._busy.remove(busy)
            self._free += 1
            busy.finish()
            return True
        if can_start:
            self._start()
            return True
        following = self._following()
        if following is None or (until is not None and following > until):
            return False
        self.now = following
        return True

    def _following(self) -> float | None:
        times = [busy.until for busy in self._busy]
        if self._free and (due := self._scheduler.next_due(self.now)) is not None:
            times.append(due)
        if (expiry := self._scheduler.next_expiry()) is not None:
            times.append(expiry)
        for pipeline in self._pipelines.values():
            sequences = pipeline.sequences  # who waits for a place waits for another's silence
            if sequences is None or not sequences.waiting:
                continue
            if (expiry := sequences.next_expiry()) is not None:
                times.append(expiry)
        return min(times, default=None)

    def _start(self) -> None:
        job = self._scheduler.next_job(self.now)
        if job is None:
            return  # what it had was to let requests go from their line to their first queue
        self._free -= 1
        self.began = self.now
        tally = self._metrics.tally()
        if isinstance(job, Run):
            name, rows = job.queue.stage.name, job.batch.rows
            self.runs.append((self.now, name, rows))
            run = partial(self._run, job, tally, self.now)
            deliveries = None if self._late_effects else run()
            done = self._cost(name, rows)
            self._later(done, lambda: self._ran(job, run() if deliveries is None else deliveries))
            return
        if isinstance(job, End):
            self._free += 1
            self._answer(job.task, job.fault)
            return
        resumes = job.resumes if isinstance(job, GoOn) else [Resume(job.task, None)]
        before = [cell.rows for cell in tally.stages]
        steps = go_on(resumes, tally, lambda: self.now, self)
        if not self._handfuls:
            steps = [Reached(strand, outcome) for strand, outcome, _ in steps]
        seconds = 0.0
        for stage, cell, rows in zip(self._stages.all, tally.stages, before, strict=True):
            if cell.rows > rows:
                self.runs.append((self.now, stage.name, cell.rows - rows))
                seconds += self._cost(stage.name, cell.rows - rows)
        self._later(seconds, lambda: self._advanced(steps))

    def _run(self, job: Run, tally: Tally, began: float) -> list[Given]:
        self.began = began
        return run_watched_batch(lambda: self.now, job.queue.stage, job.batch, tally, began)

    def _ran(self, job: Run, given: Sequence[Given]) -> None:
        ended, others = conclude(given)
        self._scheduler.ran(job, others, self.now)
        for task, outputs in self._scheduler.concluded(ended, self.now):
            self._tell(task, outputs)

    def _later(self, seconds: float, finish: Callable[[], None]) -> None:
        self._busy.append(_Busy(self.now + seconds, finish))

    def _advanced(self, steps: Sequence[Reached]) -> None:
        for task, outcome in self._scheduler.advanced(steps, self.now, self._free):
            self._tell(task, outcome)

    def _expire(self) -> None:
        for pipeline in self._pipelines.values():
            if pipeline.sequences is not None:
                pipeline.sequences.expire()
        for task, fault in self._scheduler.expire(self.now):
            self._answer(task, fault)

    def _answer(self, task: Task, fault: Fault) -> None:
        self._advanced([Reached(task, fault)])

    def _tell(self, task: Task, outcome: "dict[str, Item] | Fault") -> None:
        task.leave(not isinstance(outcome, Fault))
        self._scheduler.in_flight -= 1
        if isinstance(outcome, Fault):
            task.pipeline.failed(outcome)
        else:
            task.pipeline.measured(None if task.reached_queue else task.busy)
        receiver = task.answer
        if isinstance(receiver, Outcome):
            receiver.at = self.now
            receiver.task = None  # it holds what the request computed
        if isinstance(outcome, Fault):
            receiver.fail(outcome)
        else:
            receiver.give(outcome)
