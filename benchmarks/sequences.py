"""What a live sequence costs: its memory, and the time of a step as there are more of them.

A pipeline keeps a state of 1 KiB, as a voice detector does, and adds to it. 100, 1,000 and 10,000
sequences live in an engine each; a step is a request of one of them, in a random order, answered in
the caller's thread. Rounds take turns among the engines. `alone` is the same pipeline without a
state, so the difference is what a state costs. Memory is what Python and NumPy have allocated more
with the sequences than without; the state itself is part of it.
"""

import gc
import json
import math
import random
import statistics
import sys
import tracemalloc
from time import perf_counter

import numpy as np
from harness import RESULTS, duration, options

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import InSequence, Request

COUNTS = (100, 1_000, 10_000)
STEPS = 2_000
STATE = 1024  # bytes
SOURCE = """
pipeline kept(x: f32[2, 128]) -> (y: f32[2, 128]) per sequence idle 1h {
    state h: f32[2, 128] = zeros
    sum = h + x
    next h = sum
    return y = sum
}
"""
ALONE = """
pipeline alone(x: f32[2, 128]) -> (y: f32[2, 128]) {
    return y = x + x
}
"""


def main() -> int:
    arguments = options("What a live sequence costs", rounds=15).parse_args()
    plan = headrace.compile(SOURCE.replace("1h", "3600s")).plan
    alone = Engine(headrace.compile(ALONE).plan, EngineConfig(workers=1, intra_op_threads=1))
    x = np.ones((2, 128), np.float32)
    engines: dict[int, Engine] = {}
    each: dict[int, float] = {}
    for count in COUNTS:
        engine = Engine(plan, EngineConfig(workers=1, intra_op_threads=1, sequences=count))
        engine.call(asked("warm", x, start=True))
        engine.sequences["kept"].end("warm")
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for id in range(count):
            engine.call(asked(id, x, start=True))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        engines[count], each[count] = engine, (after - before) / count
    times = measured(engines, alone, x, arguments.rounds)
    for engine in (*engines.values(), alone):
        engine.close()
    return said(times, each)


def asked(id: int | str, x: object, *, start: bool = False) -> Request:
    return Request("kept", {"x": x}, sequence=InSequence(id, start))  # type: ignore[arg-type]


def measured(
    engines: dict[int, Engine], alone: Engine, x: object, rounds: int
) -> dict[int, list[float]]:
    """Return the seconds of a step by how many sequences live, once a round; 0: without a state."""
    times: dict[int, list[float]] = {count: [] for count in (0, *engines)}
    chosen = random.Random(0)
    for _ in range(rounds):
        for count, engine in engines.items():
            requests = [asked(chosen.randrange(count), x) for _ in range(STEPS)]
            begin = perf_counter()
            for request in requests:
                engine.call(request)
            times[count].append((perf_counter() - begin) / STEPS)
        request = Request("alone", {"x": x})  # type: ignore[arg-type]
        begin = perf_counter()
        for _ in range(STEPS):
            alone.call(request)
        times[0].append((perf_counter() - begin) / STEPS)
    return times


def said(times: dict[int, list[float]], each: dict[int, float]) -> int:
    """Print and keep the figures; 1 when a step of many takes much longer than one of few."""
    medians = {count: statistics.median(found) for count, found in times.items()}
    few, many = min(COUNTS), max(COUNTS)
    ratio = statistics.median(b / a for a, b in zip(times[few], times[many], strict=True))
    exponent = math.log(ratio) / math.log(many / few)
    lines = [f"a step without a state         {duration(medians[0])}"]
    lines += [
        f"a step, {count:>6,} live sequences {duration(medians[count])}, each of them "
        f"{each[count]:,.0f} bytes, of which {STATE:,} are its state"
        for count in COUNTS
    ]
    lines += [f"{many:,} against {few:,}: {ratio:.2f} times as long, exponent {exponent:.3f}"]
    print("\n".join(lines))
    kept = {"seconds": medians, "bytes": each, "ratio": ratio, "exponent": exponent}
    (RESULTS / "sequences.json").write_text(json.dumps(kept, indent=2) + "\n")
    (RESULTS / "sequences.txt").write_text("\n".join(lines) + "\n")
    return int(ratio > 2)


if __name__ == "__main__":
    sys.exit(main())
