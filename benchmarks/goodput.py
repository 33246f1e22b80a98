"""How much of its capacity an engine delivers in time when half as much again is asked of it.

Capacity is what clients get that wait for their answers, measured before and after each turn.
Then requests come at 1.5 times that rate, at random moments, whether those before them are answered
or not; each is of use for as long as `PATIENCE` requests take alone. Counted are the answers that
come in time. Ours knows the deadline and predicts; beside it stand the engine with what it predicts
left out, which gives up a request when its deadline passes, and one that is not told of deadlines
and answers everything, late or not. Each has its turn in every round.
"""

import random
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from chain import merged
from harness import Outcome, duration, options, report, summarize

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Fault, Request

WIDTH, LAYERS = 1024, 6
OVERLOAD = 1.5
PATIENCE = 20
SECONDS = 3.0
PIPE = f"""
model big = onnx "big.onnx"
pipeline one(x: f32[{WIDTH}]) -> (y: f32[{WIDTH}]) {{ return y = big(x) }}
"""
MODES = ("headrace", "deadlines alone", "no deadlines")


def plan_of(folder: Path) -> Any:  # Any: a compiled plan
    random_numbers = np.random.default_rng(0)
    weights = [
        random_numbers.normal(0, 0.03, (WIDTH, WIDTH)).astype(np.float32) for _ in range(LAYERS)
    ]
    onnx.save(merged(weights, "N"), folder / "big.onnx")
    (folder / "one.pipe").write_text(PIPE)
    return headrace.compile(folder / "one.pipe").plan


def asking(x: Any, deadline: float | None = None) -> Request:
    return Request("one", {"x": x}, deadline=deadline)


def alone(engine: Engine, x: Any) -> float:
    """Return the median seconds of a request that has the engine for itself."""
    times: list[float] = []
    for _ in range(50):
        start = time.monotonic()
        engine.submit(asking(x)).result()
        times.append(time.monotonic() - start)
    return statistics.median(times)


def capacity(engine: Engine, x: Any, seconds: float, clients: int = 8) -> float:
    """Return how many answers a second clients get that wait for theirs."""
    counts, end = [0] * clients, time.monotonic() + seconds

    def ask(number: int) -> None:
        while time.monotonic() < end:
            engine.submit(asking(x)).result()
            counts[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - start)


def goodput(
    engine: Engine, x: Any, rate: float, patience: float, seconds: float, seed: int, told: bool
) -> tuple[float, float]:
    """Return the answers a second that come in time, and the share of refusals and drops that
    were told in a tenth of the patience."""
    draw = random.Random(seed)
    at = time.monotonic() + 0.01
    end = at + seconds
    good = [0]
    quick, failed = [0], [0]
    lock = threading.Lock()
    pending: list[Future[Any]] = []

    def note(due: float, future: Future[Any]) -> None:
        now = time.monotonic()
        with lock:
            if future.exception() is None:
                good[0] += now <= due
            else:
                failed[0] += 1
                quick[0] += now <= due - 0.9 * patience

    while at < end:
        while (left := at - time.monotonic()) > 0:
            time.sleep(left)
        due = at + patience
        try:
            future = engine.submit(asking(x, due if told else None))
        except Fault:
            with lock:
                failed[0] += 1
                quick[0] += 1
        else:
            future.add_done_callback(lambda done, due=due: note(due, done))
            pending.append(future)
        at += draw.expovariate(rate)
    wait(pending)
    return good[0] / seconds, quick[0] / max(1, failed[0])


def main() -> int:
    arguments = options("Answers in time under overload", rounds=5).parse_args()
    x = np.ones(WIDTH, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(Path(folder))
    engines = {
        mode: Engine(
            plan,
            EngineConfig(predict=mode == MODES[0], queue_size=1 << 20, intra_op_threads=1),
        )
        for mode in MODES
    }
    base = engines[MODES[-1]]
    one = alone(base, x)
    patience = PATIENCE * one
    shares: dict[str, list[float]] = {mode: [] for mode in MODES}
    told_at_once: list[float] = []
    for number in range(arguments.rounds):
        before = capacity(base, x, SECONDS / 4)
        for mode in (*MODES[number % 3 :], *MODES[: number % 3]):
            told = mode != MODES[-1]
            rate = OVERLOAD * before
            got, quick = goodput(engines[mode], x, rate, patience, SECONDS, number, told)
            after = capacity(base, x, SECONDS / 4)
            shares[mode].append(got / ((before + after) / 2))
            before = after
            if mode == MODES[0]:
                told_at_once.append(quick)
        print({mode: round(values[-1], 3) for mode, values in shares.items()}, flush=True)
    for engine in engines.values():
        engine.close()
    # the harness compares times: the less of its capacity a mode delivers, the more an answer costs
    costs = {mode: [1 / max(share, 1e-3) for share in values] for mode, values in shares.items()}
    outcome: Outcome = summarize("capacity over answers in time", arguments.rounds, 1, costs)
    notes = [
        *(
            f"{mode}: {statistics.median(values):.2f} of capacity in time, least {min(values):.2f}"
            for mode, values in shares.items()
        ),
        f"a request alone takes {duration(one)}, and is of use for {duration(patience)}",
        f"of those that ours refuses or drops {statistics.median(told_at_once):.0%} are told in a "
        "tenth of that time",
    ]
    report("goodput", [outcome], notes)
    return 0 if statistics.median(shares[MODES[0]]) >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
