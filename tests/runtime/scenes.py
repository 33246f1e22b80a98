"""Small stories that a seed tells: who asks when, who goes away, how long stages take.

Each is one behaviour on the simulated driver. What must hold is asserted at the end, and that
nothing is left. A hundred seeds of each are tried in the quick suite, a thousand in the slow.
"""

import random
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType

import numpy as np

from headrace.compiler.plan import Plan
from headrace.runtime.admission import Intake
from headrace.runtime.request import Code, Fault, InSequence, Request
from headrace.runtime.simulate import Outcome, Simulation
from headrace.stdlib.op import Item
from tests.runtime.scene_plans import SEEN, scene_plan


class Seen(ModuleType):
    """What stages tell of themselves: which request they ran for, and when."""

    def __init__(self) -> None:
        super().__init__(SEEN)
        self.runs: set[tuple[str, float]] = set()
        self.clock: Callable[[], float] = lambda: 0.0
        self._times: dict[float, list[float]] = {}

    def note(self, stage: str, value: float) -> None:
        self.runs.add((stage, value))
        self._times.setdefault(value, []).append(self.clock())

    def times(self, value: float) -> list[float]:
        """When stages began for a request."""
        return self._times.get(value, [])


class Scene:
    """A simulation of one plan, with requests at random times."""

    def __init__(self, seed: int, plan: Plan, *, workers: int | None = None, most: float = 0.01):
        self.draw = random.Random(seed)
        self.seen = sys.modules[SEEN] = Seen()
        costs = (0.0, most / 10, most)
        self.simulation = Simulation(
            plan,
            workers=workers or self.draw.randint(1, 4),
            seed=seed,
            intake=Intake(predict=False),
            cost=lambda _stage, _rows: self.draw.choice(costs),
        )
        self.seen.clock = lambda: self.simulation.began
        self.asked: list[tuple[Request, Outcome]] = []
        self.cancelled: set[int] = set()

    @property
    def now(self) -> float:
        return self.simulation.now

    @property
    def pending(self) -> int:
        """How many wait to be started."""
        scheduler = self.simulation._scheduler  # pyright: ignore[reportPrivateUsage] as engines tell
        return sum(scheduler.pending())

    @property
    def sequences(self) -> int:
        """How many sequences live."""
        pipelines = self.simulation._pipelines  # pyright: ignore[reportPrivateUsage] as above
        found = pipelines["p"].sequences
        return 0 if found is None else len(found)

    def ask(self, value: Item, **more: object) -> Outcome:
        request = Request("p", {"x": value}, **more)  # type: ignore[arg-type]
        outcome = self.simulation.submit(request)
        self.asked.append((request, outcome))
        return outcome

    def cancel_any(self) -> None:
        if not self.asked:
            return
        index = self.draw.randrange(len(self.asked))
        outcome = self.asked[index][1]
        if not outcome.done:
            self.cancelled.add(index)
            self.simulation.cancel(outcome)
            assert outcome.fault is not None
            assert (outcome.fault.code, outcome.at) == (Code.CANCELLED, self.now)

    def pass_time(self, most: float = 0.01) -> None:
        if self.draw.random() < 0.6:
            self.simulation.run(until=self.now + self.draw.uniform(0.0, most))

    def end(self) -> list[tuple[Request, Outcome]]:
        """Let all end; return who asked for what and got what."""
        self.simulation.run()
        assert self.simulation.leftovers == {}
        assert all(outcome.answers == 1 for _, outcome in self.asked)
        self.simulation.close()
        return self.asked


def got(outcome: Outcome) -> np.ndarray:
    assert outcome.outputs is not None, outcome.fault
    return np.asarray(outcome.outputs["y"])


def code(outcome: Outcome) -> Code | None:
    return None if outcome.fault is None else outcome.fault.code


def poisoned(seed: int) -> None:
    """B14: who is poisoned fails, and nobody else."""
    scene = Scene(seed, scene_plan("poisoned"))
    for _ in range(scene.draw.randint(3, 9)):
        scene.ask(np.float32(scene.draw.choice((13, *range(4)))))
        scene.pass_time(0.004)
    for request, outcome in scene.end():
        x = float(np.asarray(request.inputs["x"]))
        if x == 13:
            assert code(outcome) is Code.FAILED
            assert outcome.fault is not None
            assert outcome.fault.stage == "double"
        else:
            assert float(got(outcome)) == 2 * x


def miscounted(seed: int) -> None:
    """B15: whatever meets, nobody gets rows of a stage that miscounts."""
    scene = Scene(seed, scene_plan("miscounted"))
    for _ in range(scene.draw.randint(2, 6)):
        scene.ask(np.zeros(scene.draw.randint(1, 3), np.float32))
        scene.pass_time(0.004)
    for _, outcome in scene.end():
        assert code(outcome) is Code.FAILED
        assert outcome.fault is not None
        assert outcome.fault.stage == "miscount"


def joined(seed: int) -> None:
    """B16: what branches give meets at the join of its own request, also among streams."""
    scene = Scene(seed, scene_plan("joined"))
    for k in range(scene.draw.randint(4, 10)):
        if scene.draw.random() < 0.3:
            outcome = scene.simulation.submit(Request("sent", {"x": np.int64(k)}))
            outcome.room = 1
            scene.asked.append((Request("sent", {"x": np.int64(k)}), outcome))
        else:
            scene.ask(np.int64(k))
        scene.pass_time(0.005)
        if scene.draw.random() < 0.1:
            scene.cancel_any()
    scene.simulation.run()
    while any(outcome.parked for _, outcome in scene.asked):
        for _, outcome in scene.asked:
            if outcome.parked:
                scene.simulation.resume(outcome)
        scene.simulation.run()
    for index, (request, outcome) in enumerate(scene.end()):
        if index in scene.cancelled:
            continue
        k = int(np.asarray(request.inputs["x"]))
        if request.pipeline == "sent":
            assert outcome.fault is None
            assert [int(np.asarray(one["y"])) for one in outcome.emitted] == [k, k]
        else:
            assert int(got(outcome)) == k


def chosen(seed: int) -> None:
    """B17: only rows that need it reach the arm; all come back in their order."""
    scene = Scene(seed, scene_plan("chosen"))
    needed = 0
    for _ in range(scene.draw.randint(2, 6)):
        rows = np.array([scene.draw.randrange(40) for _ in range(scene.draw.randint(1, 6))], "f4")
        needed += int((rows > 20).sum())
        scene.ask(rows)
        scene.pass_time()
    for request, outcome in scene.end():
        rows = np.asarray(request.inputs["x"])
        np.testing.assert_array_equal(got(outcome), np.where(rows > 20, rows * 2, rows))
    assert scene.simulation.metrics.stage("double").rows == needed


def counted(seed: int) -> None:
    """B02, B03, B18: batches are of rows; only what is larger than a batch is cut."""
    scene = Scene(seed, scene_plan("counted"))
    for _ in range(scene.draw.randint(2, 6)):
        scene.ask(np.arange(scene.draw.choice((1, 3, 5, 8, 20)), dtype=np.float32) + 20)
        scene.pass_time()
    asked = scene.end()
    for request, outcome in asked:
        np.testing.assert_array_equal(got(outcome), np.asarray(request.inputs["x"]) * 2)
    sizes = [rows for _, stage, rows in scene.simulation.runs if stage == "double"]
    assert max(sizes) <= 8
    assert sum(sizes) == sum(len(np.asarray(one.inputs["x"])) for one, _ in asked)


def preferred(seed: int) -> None:
    """B19: a run has a preferred size, unless fewer rows are there than the smallest."""
    scene = Scene(seed, scene_plan("preferred"))
    for x in range(20, 20 + scene.draw.randint(3, 14)):
        scene.ask(np.float32(x))
        scene.pass_time(0.002)
    for request, outcome in scene.end():
        assert float(got(outcome)) == 2 * float(np.asarray(request.inputs["x"]))
    sizes = [rows for _, stage, rows in scene.simulation.runs if stage == "double"]
    assert set(sizes) <= {1, 2, 3, 4, 8}


def timed(seed: int) -> None:
    """B20: told when its time in the queue is over, and never run after that."""
    scene = Scene(seed, scene_plan("timed"), most=0.05)
    arrived: list[float] = []
    for x in range(scene.draw.randint(3, 9)):
        arrived.append(scene.now)
        scene.ask(np.float32(x))
        scene.pass_time(0.03)
    asked = scene.end()
    ran = {x for stage, x in scene.seen.runs if stage == "first"}
    for x, (_, outcome) in enumerate(asked):
        if outcome.fault is None:
            assert x in ran
            assert float(got(outcome)) == x
        else:
            assert outcome.fault.code is Code.OVERLOADED
            assert outcome.at == arrived[x] + 0.02
            assert x not in ran


def bounded(seed: int) -> None:
    """B21: as many wait as the bound says, neither more nor fewer."""
    scene = Scene(seed, scene_plan("bounded"))
    for x in range(scene.draw.randint(6, 14)):
        before = scene.pending
        if scene.ask(np.float32(x)).done:
            assert before == 2
        assert scene.pending <= 2
        scene.pass_time()
    for x, (_, outcome) in enumerate(scene.end()):
        assert code(outcome) in (None, Code.OVERLOADED)
        assert (("first", x) in scene.seen.runs) == (outcome.fault is None)


def inside(seed: int) -> None:
    """B21: who is refused inside is told at that moment, and the rest is served."""
    scene = Scene(seed, scene_plan("inside"))
    for x in range(scene.draw.randint(4, 12)):
        scene.ask(np.float32(x))
        scene.pass_time()
    asked = scene.end()
    for x, (_, outcome) in enumerate(asked):
        assert code(outcome) in (None, Code.OVERLOADED)
        assert ("first", x) in scene.seen.runs
        assert (("second", x) in scene.seen.runs) == (outcome.fault is None)
        assert outcome.fault is None or outcome.fault.stage == "second"
    assert sum(outcome.fault is None for _, outcome in asked) >= 3


def inherited(seed: int) -> None:
    """B22: nobody is answered after his deadline, nor does a stage begin for him then; and of two
    that wait for a stage the more urgent goes first."""
    scene = Scene(seed, scene_plan("staged"))
    for x in range(scene.draw.randint(3, 9)):
        limit = scene.draw.choice((None, 0.004, 0.012, 0.03))
        deadline = None if limit is None else scene.now + limit
        scene.ask(np.float32(x), deadline=deadline, priority=scene.draw.choice((0, 1, 3)))
        scene.pass_time()
    for x, (request, outcome) in enumerate(scene.end()):
        if outcome.fault is None:
            assert float(got(outcome)) == x
        else:
            assert (outcome.fault.code, outcome.at) == (Code.DEADLINE, request.deadline)
        if request.deadline is not None:
            assert outcome.at is not None
            assert outcome.at <= request.deadline
            assert all(at < request.deadline for at in scene.seen.times(x))


def given_up(seed: int) -> None:
    """B23: after it was cancelled nothing begins of a request, and all others are served."""
    scene = Scene(seed, scene_plan("staged"))
    at: dict[int, float] = {}
    for x in range(scene.draw.randint(3, 9)):
        scene.ask(np.float32(x))
        scene.pass_time()
        if scene.draw.random() < 0.5:
            before = set(scene.cancelled)
            scene.cancel_any()
            at.update(dict.fromkeys(scene.cancelled - before, scene.now))
    for x, (_, outcome) in enumerate(scene.end()):
        if x in scene.cancelled:
            assert all(begun <= at[x] for begun in scene.seen.times(x))
        else:
            assert float(got(outcome)) == x


def summed(seed: int) -> None:
    """B24: every answer is what its sequence alone would give, whoever fails, is silent, starts
    anew, never ends, or ends what was not begun."""
    scene = Scene(seed, scene_plan("summed"))
    draw = scene.draw
    for _ in range(draw.randint(6, 16)):
        x = np.float32(draw.choice((1, 2, 4, 8, 13)))
        sequence = InSequence(
            draw.choice(("a", "b", "c")), draw.random() < 0.4, draw.random() < 0.2
        )
        with suppress(Fault):  # of what was not started, or finds no place
            scene.ask(x, sequence=sequence)
        scene.pass_time()
        if draw.random() < 0.1:
            scene.cancel_any()
        if draw.random() < 0.05:
            scene.simulation.run(until=scene.now + 65)  # those in the back-log are silent too
            assert scene.sequences == 0
    sums: dict[object, float | None] = {}
    for request, outcome in scene.end():
        sequence, x = request.sequence, float(np.asarray(request.inputs["x"]))
        assert sequence is not None
        kept = 0.0 if sequence.start else sums.get(sequence.id)
        if outcome.fault is None:
            assert kept is not None
            assert float(got(outcome)) == kept + x
            sums[sequence.id] = None if sequence.end else kept + x
        elif sequence.start:
            sums[sequence.id] = None  # nothing older is taken for its own


SCENES: Mapping[str, Callable[[int], None]] = {
    "b02_b03_b18_counted": counted,
    "b14_poisoned": poisoned,
    "b15_miscounted": miscounted,
    "b16_joined": joined,
    "b17_chosen": chosen,
    "b19_preferred": preferred,
    "b20_timed": timed,
    "b21_bounded": bounded,
    "b21_inside": inside,
    "b22_inherited": inherited,
    "b23_given_up": given_up,
    "b24_summed": summed,
}
