"""A batch that holds rows of requests which are recorded: each is told who shared it.

A driver runs batches with this once any request of its engine was recorded.
"""

from collections.abc import Callable

from ..batcher import Batch
from ..jobs import Given, run_batch
from ..metrics import Tally
from ..request import Fault
from ..stage import Stage
from ..task import Ticket
from .recording import Stopwatch
from .watch import WatchedStage


def run_watched_batch(
    clock: Callable[[], float], stage: Stage, batch: Batch[Ticket], tally: Tally, now: float
) -> list[Given]:
    """Do as `run_batch`, and write down what was done."""
    slices = batch.slices
    if not any(isinstance(piece.entry.owner.work.stage, WatchedStage) for piece in slices):
        return run_batch(stage, batch, tally, now)
    watch = Stopwatch(stage.name, tally.stages[stage.index], clock)
    given = run_batch(stage, batch, tally, now)
    run = watch.stop(
        batch.rows,
        len({id(piece.entry.owner.task) for piece in slices}),
        failed=any(isinstance(one.outcome, Fault) for one in given),
    )
    for piece in slices:
        asked = piece.entry.owner.work.stage
        if isinstance(asked, WatchedStage):
            asked.recording.ran(asked.span, run, piece.stop - piece.start)
    return given
