"""Hand-made plans whose requests fork, for the tests of blocks that run at once."""

from collections.abc import Callable, Sequence

import numpy as np

from headrace.compiler.plan import (
    Batching,
    Block,
    Queueing,
    Step,
    TogetherStep,
    TryStep,
)
from headrace.compiler.verify_plan import verify_plan
from headrace.runtime.request import Request
from headrace.runtime.simulate import Outcome, Simulation
from tests.runtime.plans import PlanMaker, block, call, fields, place

TOYS = """
def left(x):
    if x == 13:
        raise ValueError("left")
    return x + 1

def right(x):
    if x == 13 or x == 14:
        raise ValueError("right")
    return x * 2

def both(x, y):
    return x * 100 + y

def last(x):
    return x - 1
"""


F32 = fields(x="f32")


PAIR = fields(x="f32", y="f32")


Y32 = fields(y="f32")


def arm(*steps: Step, result: int, captured: Sequence[int] = (0,)) -> Block:
    """A block that sees the slots `captured` of the block around it as 0, 1, ..."""
    return block([], steps, [result], captures=[(one, i) for i, one in enumerate(captured)])


def together(*blocks: Block, outputs: Sequence[int], line: int = 4) -> TogetherStep:
    return TogetherStep(blocks, tuple(outputs), place(line))


class Toys(PlanMaker):
    """`left` and `right`, 0 and 1, with queues if so wished; `both` of what they give; `last`."""

    def __init__(
        self,
        source: str = TOYS,
        batching: Batching | None = None,
        queueing: Queueing | None = None,
    ) -> None:
        super().__init__()
        for name in ("left", "right"):
            self.python(name, source, F32, Y32, batching=batching, queueing=queueing)
        self.python("both", TOYS, PAIR, Y32)
        self.python("last", TOYS, F32, Y32)

    def fork(self, *outputs: int) -> TogetherStep:
        """Left and right of slot 0."""
        left = arm(call(0, [0], [1], 5), result=1)
        right = arm(call(1, [0], [1], 6), result=1)
        return together(left, right, outputs=outputs)

    def joined(self, **more: object) -> "Toys":
        """A pipeline that puts the two together."""
        body = block([0], [self.fork(1, 2), call(2, [1, 2], [3])], [3])
        self.pipeline("p", F32, Y32, body, **more)  # type: ignore[arg-type]
        return self

    def tried(self, within: float | None) -> "Toys":
        """The same under a `try` whose `else` is `last`."""
        body = block([], [self.fork(1, 2), call(2, [1, 2], [3])], [3], captures=[(0, 0)])
        orelse = block([], [call(3, [0], [1])], [1], captures=[(0, 0)])
        step = TryStep(body, orelse, within, (1,), place(7))
        self.pipeline("p", F32, Y32, block([0], [step], [1]))
        return self


class Simulated(Simulation):
    opened: "list[Simulation]" = []  # noqa: RUF012 closed by the fixture

    def __init__(
        self,
        maker: PlanMaker,
        workers: int = 1,
        seed: int = 0,
        cost: Callable[[str, int], float] = lambda _name, _rows: 0.001,
    ) -> None:
        plan = maker.plan()
        verify_plan(plan)
        super().__init__(plan, workers=workers, seed=seed, cost=cost)
        self.opened.append(self)

    def ask(self, x: object, **more: object) -> Outcome:
        return self.submit(Request("p", {"x": x}, **more))  # type: ignore[arg-type, dict-item]

    def ran(self) -> dict[str, int]:
        found = {name: self.metrics.stage(name).rows for name in ("left", "right", "both", "last")}
        return {name: rows for name, rows in found.items() if rows}


def number(outcome: Outcome) -> float | None:
    return None if outcome.outputs is None else float(np.asarray(outcome.outputs["y"]))


def ten_each(stage: str, rows: int) -> float:
    return 0.010 * rows if stage in ("left", "right") else 0.0
