"""Telling those who wait what became of their requests, when no one else does any more."""

import threading
from time import perf_counter

from ..stdlib.op import Item
from .metrics import Tally
from .request import Fault
from .task import Task


def hand_out(task: Task, outcome: "dict[str, Item] | Fault", tally: Tally, now: float) -> None:
    """Count a request and answer it; what its caller wants to do then may raise anything."""
    count_outcome(tally, task, outcome, now)
    if task.turn is not None:
        task.leave(not isinstance(outcome, Fault))
    answer, task.answer = task.answer, ANSWERED
    if isinstance(outcome, Fault):
        answer.fail(outcome)
    else:
        answer.give(outcome if task.told is None else task.told.remarked(outcome))


class Answered:
    """Where an answer went: the frames that a fault's traceback leads to hold its request, which is
    to hold neither the fault nor who has it."""

    def give(self, outputs: dict[str, Item]) -> None:
        """Nobody waits any more."""

    def fail(self, fault: Fault) -> None:
        """Nobody waits any more."""

    def emit(self, outputs: dict[str, Item]) -> bool:
        del outputs
        return True

    def take_back(self) -> None:
        """Nobody waits any more."""


ANSWERED = Answered()


def count_outcome(tally: Tally, task: Task, outcome: "dict[str, Item] | Fault", now: float) -> None:
    """Count a finished request, and take its time into its pipeline's mean."""
    cell = tally.pipelines[task.pipeline.index]
    if isinstance(outcome, Fault):
        cell.end(outcome)
        task.pipeline.failed(outcome)
        return
    cell.successes += 1
    cell.duration += now - task.admitted
    cell.queue += task.waited
    cell.last = perf_counter()
    if task.rows != 1:
        cell.count_rows(task.rows, now - task.admitted)
    # of one that has waited for others it is not known how long it computes
    task.pipeline.measured(None if task.reached_queue else task.busy)


def report(error: BaseException) -> None:
    """Say what would have ended this thread, as Python does where it has."""
    told = (type(error), error, error.__traceback__, threading.current_thread())
    threading.excepthook(threading.ExceptHookArgs(told))
