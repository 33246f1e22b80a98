"""What handing a request to a worker costs: a lone submit, and many that meet in batches.

Ours is `submit(...).result()` of a pipeline of one small model with a batch policy, so that it does
not run in the thread that submits it. The peers are a call in the caller's own thread, and the
least that a hop can cost: a thread that takes requests from a `SimpleQueue`, runs the bare session
and resolves a Future.
"""

import queue
import sys
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from chain import WIDTH, merged, session
from harness import Contender, duration, measure, options, report

import headrace

AT_ONCE = 256
PIPE = f"""
model link = onnx "link.onnx"
pipeline one(x: f32[{WIDTH}]) -> (y: f32[{WIDTH}]) {{ return y = link(x) }}
schedule one on "server" {{ link {{ batch {{ max = 32, wait = 0ms }} }} }}
"""


class Hop:
    """A thread around a bare session; `submit` is the cheapest that Python's library allows."""

    def __init__(self, run: Any) -> None:  # Any: an untyped session's method
        self._run = run
        self._requests: queue.SimpleQueue[tuple[Future[Any], Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def submit(self, x: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._requests.put((future, x))
        return future

    def close(self) -> None:
        self._requests.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            future, x = request
            future.set_result(self._run(None, {"x": x})[0])


def main() -> int:
    arguments = options("What handing a request to a worker costs", rounds=31).parse_args()
    weight = np.random.default_rng(0).normal(0, 0.125, (WIDTH, WIDTH)).astype(np.float32)
    model = merged([weight], "N")
    x = np.ones(WIDTH, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, Path(folder) / "link.onnx")
        (Path(folder) / "one.pipe").write_text(PIPE)
        plan = headrace.compile(Path(folder) / "one.pipe")
    hop = Hop(session(model).run)
    with headrace.load(plan, workers=1, intra_op_threads=1) as app:
        one = app.one

        def many_ours() -> None:
            for future in [one.submit(x=x) for _ in range(AT_ONCE)]:
                future.result()

        def many_hops() -> None:
            for future in [hop.submit(x[None]) for _ in range(AT_ONCE)]:
                future.result()

        np.testing.assert_allclose(one(x=x).y, hop.submit(x[None]).result()[0], rtol=1e-5)
        lone = measure(
            "lone request",
            [
                Contender("headrace submit", lambda: one.submit(x=x).result()),
                Contender("headrace call", lambda: one(x=x)),
                Contender("bare hop", lambda: hop.submit(x[None]).result()),
            ],
            rounds=arguments.rounds,
            calls=100,
            warmup=100,
        )
        crowd = measure(
            f"{AT_ONCE} requests at once",
            [Contender("headrace submit", many_ours), Contender("bare hop", many_hops)],
            rounds=arguments.rounds,
            calls=2,
            warmup=3,
        )
    hop.close()
    notes = [
        f"a lone submit over a call: {duration(lone.ratios[0].extra)}; "
        f"over a bare hop: {duration(lone.ratios[1].extra)}",
        f"a request of {AT_ONCE}: {duration(crowd.timings[0].median / AT_ONCE)}",
    ]
    report("engine_submit", [lone, crowd], notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
