"""Small mistakes put into batcher, flow, scheduler, sequences and planner: some quick test must
catch each."""

from pathlib import Path

import pytest

from tests.mutating import Mutation, outdated, survivors

BATCHER, PADDING = "tests/runtime/test_batcher.py", "tests/runtime/test_padding.py"
FLOW, ITERATE = "tests/runtime/test_flow.py", "tests/runtime/test_iterate.py"
SIMULATE, RANDOM = "tests/runtime/test_simulate.py", "tests/runtime/test_behaviours_at_random.py"
ENDS, COMPANY = "tests/runtime/test_together_ends.py", "tests/runtime/test_company.py"
TOGETHER, ADMISSION = "tests/runtime/test_together.py", "tests/runtime/test_admission.py"
SEQUENCES, PLANNER = "tests/runtime/test_sequences.py", "tests/compiler/test_planner.py"
QUEUES, DIVISION = "tests/runtime/test_behaviours_of_queues.py", "tests/runtime/test_division.py"
UNITS, SEATS = "tests/runtime/test_units.py", "tests/runtime/test_seats.py"
PLACES, STATE = "tests/runtime/test_places.py", "tests/runtime/test_state.py"
BELL = "tests/runtime/test_bell.py"

QUEUED = (
    Mutation(
        "a batch holds a row more than it may",
        "runtime/batcher.py",
        "rows = min(rows, self._maximum)",
        "rows = min(rows, self._maximum + 1)",
        BATCHER,
        "large_group",
    ),
    Mutation(
        "the smallest preferred size runs first",
        "runtime/batcher.py",
        "max((size for size in self._prefer if size <= rows), default=rows)",
        "min((size for size in self._prefer if size <= rows), default=rows)",
        BATCHER,
        "b19",
    ),
    Mutation(
        "what runs in part is dropped by the timeout of its queue",
        "runtime/batcher.py",
        "if over or not (entry.taken or self._delays(entry)):",
        "if over or not self._delays(entry):",
        BATCHER,
        "part_runs_has_left",
    ),
    Mutation(
        "a class that fills batches keeps the others from their turn",
        "runtime/batcher.py",
        "line.filled = None  # what",
        "pass  # what",
        BATCHER,
        "again_and_again",
    ),
    Mutation(
        "one more waits than the bound says",
        "runtime/queue_policy.py",
        "bound.waiting < bound.size:",
        "bound.waiting <= bound.size:",
        BATCHER,
        "b21",
    ),
    Mutation(
        "an idle worker is counted for two levels",
        "runtime/queue_policy.py",
        "max(0, idle - self.waiting + bound.waiting)",
        "idle",
        BATCHER,
        "two_levels",
    ),
    Mutation(
        "what is delayed goes before those that have not waited so long",
        "runtime/line.py",
        "entry.rank = (True, entry.level)",
        "entry.rank = (False, entry.level)",
        SIMULATE,
        "b20_under_delay",
    ),
    Mutation(
        "nobody waits for company",
        "runtime/line.py",
        "in self._ranks]) + wait",
        "in self._ranks])",
        BATCHER,
        "company",
    ),
    Mutation(
        "what is urgent waits as long as the others",
        "runtime/line.py",
        "due = min(due, found[0])",
        "pass",
        BATCHER,
        "urgent",
    ),
    Mutation(
        "small requests are cut to fill a batch",
        "runtime/batcher.py",
        "if rows < left <= whole and taken:",
        "if False:",
        BATCHER,
        "b18",
    ),
    Mutation(
        "small requests are cut to fill a batch that is padded",
        "runtime/gather.py",
        "if rows < count <= whole and filled:",
        "if False:",
        PADDING,
        "b18",
    ),
    Mutation(
        "as much is padded as it takes to fill a batch",
        "runtime/gather.py",
        "total - used - rows * size > waste * total",
        "False",
        PADDING,
        "more_padding",
    ),
    Mutation(
        "rows of different shape meet",
        "runtime/strands.py",
        "Entry(ticket, one.count, one.key, i,",
        "Entry(ticket, one.count, None, i,",
        PADDING,
        "bucket",
    ),
    Mutation(
        "a batch that fails fails all of its requests",
        "runtime/jobs.py",
        "if isinstance(error, StageError) and len(slices) > 1:",
        "if False:",
        RANDOM,
        "b14",
    ),
    Mutation(
        "all requests of a batch get the rows of the first",
        "runtime/jobs.py",
        "at += piece.stop - piece.start",
        "at += 0",
        RANDOM,
        "b16",
    ),
    Mutation(
        "nobody is expected who is alone",
        "runtime/company.py",
        "any(counts[at] > 0 for",
        "any(counts[at] > 1 for",
        COMPANY,
        "expected",
    ),
)
WALKED = (
    Mutation(
        "the rows of an arm come back in another order",
        "runtime/control.py",
        "parts.append((rows, results))",
        "parts.append((rows[::-1], results))",
        FLOW,
        "b17",
    ),
    Mutation(
        "items of a `for` go to the row before",
        "runtime/control.py",
        "start += length\n            if",
        "start += length - 1\n            if",
        FLOW,
        "loops_nest",
    ),
    Mutation(
        "what `when` drops is kept and the rest dropped",
        "runtime/control.py",
        "if bool(keep)]",
        "if not bool(keep)]",
        FLOW,
        "filter",
    ),
    Mutation(
        "a row goes on when its loop says stop",
        "runtime/iterate.py",
        "if not bool(stop[i])]",
        "if bool(stop[i])]",
        ITERATE,
        "stop_on_their_own",
    ),
    Mutation(
        "one row that fails sends all the other way",
        "runtime/attempts.py",
        "elif group.count == 1 or tried.code in _OF_ALL:",
        "elif True:",
        ITERATE,
        "only_the_rows",
    ),
    Mutation(
        "an inner `try` outlives the one around it",
        "runtime/flow.py",
        "limits += [] if self._around.at is None else [self._around.at]",
        "pass",
        ITERATE,
        "outer_try",
    ),
    Mutation(
        "branches give their results in the order in which they end",
        "runtime/task.py",
        "self._given[branch.index] = results",
        "self._given[-self._missing] = results",
        TOGETHER,
        "forks_within",
    ),
    Mutation(
        "a join does not wait for the last",
        "runtime/task.py",
        "self._missing -= 1\n        return self._missing == 0",
        "self._missing -= 1\n        return self._missing == 1",
        TOGETHER,
        "forks_within",
    ),
    Mutation(
        "a stage that feeds no wanted result runs all the same",
        "runtime/prune.py",
        "if needed.isdisjoint(outputs) and not useful.isdisjoint(outputs):",
        "if False:",
        FLOW,
        "b11",
    ),
)
SCHEDULED = (
    Mutation(
        "the other branches of a request that failed stay in their queues",
        "runtime/strands.py",
        "            if not branch.done:\n                self.stop(branch, now)",
        "            pass",
        ENDS,
        "takes_the_other_out",
    ),
    Mutation(
        "two batches that fail resume a request twice",
        "runtime/strands.py",
        "if strand.ticket is not ticket:\n            return",
        "",
        SIMULATE,
        "goes_on_once",
    ),
    Mutation(
        "a request that is cancelled stays in the queue of its stage",
        "runtime/strands.py",
        "strand.done = True\n        if strand.ticket is not None:",
        "strand.done = True\n        if False:",
        RANDOM,
        "b23",
    ),
    Mutation(
        "what is too late runs if nobody has been told yet",
        "runtime/scheduler.py",
        "if expiry is None or expiry > now:\n            return False",
        "return False",
        BATCHER.replace("batcher", "overload"),
        "",
    ),
    Mutation(
        "a unit that a stage has taken does not come back",
        "runtime/units.py",
        "self._held.discard(holding)",
        "pass",
        QUEUES,
        "b23",
    ),
    Mutation(
        "an instance of a stage that is free is taken for busy",
        "runtime/stage_queues.py",
        "queue.running -= 1",
        "pass",
        SIMULATE,
        "b21",
    ),
    Mutation(
        "small takers keep a large one from its units",
        "runtime/units.py",
        "kept.update(name for name, _ in claim.needs)",
        "pass",
        UNITS,
        "large_taker",
    ),
    Mutation(
        "a worker whose place is lent takes a job",
        "runtime/shift.py",
        "self._scheduler.next_job(now) if places.free else None",
        "self._scheduler.next_job(now)",
        PLACES,
        "takes_no_job",
    ),
    Mutation(
        "who runs his own request takes no worker's place",
        "runtime/places.py",
        "        self.free -= 1\n        self.lent += 1",
        "        self.lent += 1",
        PLACES,
        "takes_no_job",
    ),
    Mutation(
        "a request for which nobody was woken is left to its caller for ever",
        "runtime/bell.py",
        "if self._due is not None and self._due > now:",
        "if self._due is not None:",
        BELL,
        "caller_is_late",
    ),
    Mutation(
        "nobody is woken for who waits in another way than by running his request",
        "runtime/pending.py",
        "            self._server.hurry()",
        "            pass",
        BELL,
        "whether_it_is_done",
    ),
    Mutation(
        "nobody is woken for a second request while one is left to its caller",
        "runtime/threads.py",
        "alone = self._scheduler.in_flight == 1",
        "alone = True",
        BELL,
        "second_request",
    ),
    Mutation(
        "what a stage asks for is refused once the engine drains",
        "runtime/inside.py",
        "if self.closed and not self.is_amid(tally.inside - 1):",
        "if self.closed:",
        PLACES,
        "b26",
    ),
    Mutation(
        "bytes in flight may be one more than all",
        "runtime/room.py",
        "self.held + size > self._bound",
        "self.held + size > self._bound + 1",
        ADMISSION,
        "exactly",
    ),
)
KEPT = (
    Mutation(
        "a sequence that has ended is kept",
        "runtime/sequences.py",
        "None if turn.sequence.end or turn.cut else values",
        "values",
        SEQUENCES,
        "b24",
    ),
    Mutation(
        "a start that was given up leaves what was before it",
        "runtime/sequences.py",
        "before.cut = True",
        "pass",
        SEQUENCES,
        "given_up",
    ),
    Mutation(
        "a start goes on from what is kept",
        "runtime/sequences.py",
        "            return self._initial",
        "            return turn.entry.values or self._initial",
        SEQUENCES,
        "restart",
    ),
    Mutation(
        "a silent sequence is kept twice as long",
        "runtime/sequences.py",
        "now + self._places.idle",
        "now + 2 * self._places.idle",
        SEQUENCES,
        "b24",
    ),
    Mutation(
        "who came last to the back-log gets the place",
        "runtime/sequences.py",
        "popitem(last=False)",
        "popitem(last=True)",
        SEQUENCES,
        "in_order",
    ),
    Mutation(
        "one more sequence lives than there are places",
        "runtime/sequences.py",
        "if len(self) < places.most:",
        "if len(self) <= places.most:",
        SEQUENCES,
        "so_many",
    ),
    Mutation(
        "what one request leaves is another's as well",
        "runtime/turns.py",
        "return item.copy()",
        "return item",
        STATE,
        "",
    ),
    Mutation(
        "what runs for nobody does not keep the next from its turn",
        "runtime/turns.py",
        "return self._store.hold(turn)",
        "return not turn.over",
        SEATS,
        "",
    ),
)
PLANNED = (
    Mutation(
        "a slot is freed although a later step reads it",
        "compiler/planner.py",
        "last.update(dict.fromkeys((*outputs, *read), len(steps) - 1))",
        "last.update(dict.fromkeys(outputs, len(steps) - 1))",
        PLANNER,
        "",
    ),
    Mutation(
        "a slot that is a result is freed before the end",
        "runtime/prune.py",
        "seen = set(results)",
        "seen = set[int]()",
        FLOW,
        "b11",
    ),
)
MUTATIONS = (*QUEUED, *WALKED, *SCHEDULED, *KEPT, *PLANNED)


def test_each_mistake_can_still_be_made() -> None:
    assert outdated(MUTATIONS) == []


@pytest.mark.slow
def test_each_of_twenty_five_mistakes_is_caught_by_some_quick_test(tmp_path: Path) -> None:
    assert len(MUTATIONS) >= 25
    assert survivors(MUTATIONS, tmp_path) == []
