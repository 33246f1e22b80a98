"""What an engine does about time to come: who is refused, dropped, or had better not wait.

Between the scheduler, which knows who waits where, and the figures of `forecast.py` and
`admission.py`. Nothing here waits or locks; `now` is always an argument.
"""

from typing import Final

from .admission import Admission, Intake
from .blame import hopeless, overloaded, too_large
from .flow import Work
from .forecast import START, Forecast
from .line import Entry
from .request import Fault
from .room import Room
from .task import Task

_HASTE: Final = 1.5
"""How many times as long as usual what is left of a request may take once it waits no longer."""


class Foresight:
    """Of the pipelines of one engine, by number."""

    __slots__ = ("_admission", "_forecasts", "_moved", "_room")

    def __init__(self, pipelines: int, intake: Intake, room: Room) -> None:
        self._room = room
        self._forecasts = [Forecast() if intake.predict else None for _ in range(pipelines)]
        self._admission = Admission(self._forecasts)
        self._moved = [float("-inf")] * pipelines

    @property
    def held(self) -> int:
        """How many bytes of inputs are in flight."""
        return self._room.held

    def refusal(self, task: Task, now: float, ahead: int) -> Fault | None:
        """Return why a request is not taken in, with so many ahead of it; None when it is, and has
        its room, until it is `answered` or there is `no_place` for it."""
        room = self._room
        if task.deadline is None and room.take(task.size):
            return None
        pipeline, name = task.pipeline.index, task.pipeline.plan.name
        if room.too_large(task.size):
            return too_large(name, task.size)
        left, forecast = None, self._forecasts[pipeline]
        if task.deadline is not None and task.deadline > now:  # else it is ended in a moment
            left = task.deadline - now
            if forecast is not None and left < (least := forecast.least(START)):
                forecast.doubt(START)
                return hopeless(name, None, least)
        refusal = self._admission.refuses(pipeline, ahead, left)
        if refusal is None:
            if room.take(task.size):
                return None
            refusal = self._admission.full(pipeline, ahead)
        return overloaded(name, None, refusal.retry_after, refusal.reason)

    def no_place(self, task: Task, waiting: int | None) -> Fault:
        """Return the fault of a request in whose line so many wait that there is no place; None
        where it is its turn that it would wait for."""
        self._room.give(task.size)
        wait = None if waiting is None else self._admission.wait(task.pipeline.index, waiting)
        return overloaded(task.pipeline.plan.name, None, wait)

    def full_stage(self, task: Task, work: Work) -> Fault:
        """Return the fault of a request for which a stage's queue has no place."""
        forecast = self._forecasts[task.pipeline.index]
        wait = None if forecast is None else forecast.mean(work.stage.index) or None
        return overloaded(task.pipeline.plan.name, work, wait)

    def given_up(self, task: Task, work: Work | None, waiting: int, *, dropped: bool) -> Fault:
        """Return the fault of what has left a queue: dropped, or because of the queue's timeout,
        while so many wait in its line."""
        pipeline, name = task.pipeline.index, task.pipeline.plan.name
        forecast = self._forecasts[pipeline]
        if dropped and forecast is not None:
            at = START if work is None else work.stage.index
            least = forecast.least(at)
            forecast.doubt(at)
            return hopeless(name, work, least)
        wait = self._admission.wait(pipeline, waiting) or None
        return overloaded(name, work, wait, "it waited longer than the queue's timeout")

    def entry(self, task: Task) -> Entry[Task]:
        """Return a request's place in its line."""
        entry = Entry(task, 1, level=task.level, limited=task.limited)
        if task.deadline is not None:
            entry.deadline, _ = self.limits(task, START)
        return entry

    def limits(self, task: Task, at: int) -> tuple[float | None, float | None]:
        """Return from when on a request that waits at a place cannot be in time, and until when it
        may wait for company."""
        forecast = self._forecasts[task.pipeline.index]
        if task.deadline is None or forecast is None:
            return task.deadline, None
        return task.deadline - forecast.least(at), task.deadline - _HASTE * forecast.mean(at)

    def left_line(self, task: Task, arrived: float, now: float) -> None:
        """Note that the first of a line is started."""
        pipeline = task.pipeline.index
        self._admission.started(pipeline, now - max(arrived, self._moved[pipeline]))
        self._moved[pipeline] = now

    def answered(self, task: Task, now: float, *, succeeded: bool) -> None:
        """Note that a request is done."""
        if succeeded and task.begun:
            forecast = self._forecasts[task.pipeline.index]
            if forecast is not None:
                forecast.answered(task.begun, now)

    def leave(self, size: int) -> None:
        """Give back the room of inputs of so many bytes."""
        self._room.give(size)
