"""A cascade with k% hard items: its time must go by k, against running both models on all.

64 items a request; a quick model looks at each, and an exact one, which takes time by the item, at
those that the quick one is not sure of. Both models run in batches on either side. What a cascade
should take is what none and all being hard take, weighted by k; printed is how far it is from that.
The third contender is the cascade written by hand over the bare sessions.
"""

import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from chain import session
from harness import Contender, Outcome, duration, measure, options, report
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import headrace

ITEMS, WIDTH, CHANNELS, LAYERS = 64, 512, 16, 4
HARD = (0, 5, 10, 25, 50, 100)
PIPE = f"""
model quick = onnx "quick.onnx" (x: f32[{WIDTH}]) -> (sure: f32)
model exact = onnx "exact.onnx" (x: f32[{WIDTH}]) -> (y: f32[{WIDTH}])

pipeline cascade(xs: f32[N, {WIDTH}]) -> (y: f32[N, {WIDTH}]) {{
    rows = for x in xs {{
        y = if quick(x) < 0.5 {{ exact(x) }} else {{ x }}
        yield y = y
    }}
    return y = rows.y
}}

pipeline both(xs: f32[N, {WIDTH}]) -> (y: f32[N, {WIDTH}]) {{
    rows = for x in xs {{
        y = exact(x)
        yield y = where(quick(x) < 0.5, y, x)
    }}
    return y = rows.y
}}

schedule cascade on "server" {{
    quick {{ batch {{ max = {ITEMS} }} }}
    exact {{ batch {{ max = {ITEMS} }} }}
}}

schedule both on "server" {{
    quick {{ batch {{ max = {ITEMS} }} }}
    exact {{ batch {{ max = {ITEMS} }} }}
}}
"""


def quick() -> onnx.ModelProto:
    """Return a model that is as sure of an item as its first number says."""
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "first"], ["sure"], axis=1)],
        "quick",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", WIDTH])],
        [helper.make_tensor_value_info("sure", TensorProto.FLOAT, ["N"])],
        [numpy_helper.from_array(np.array(0, np.int64), "first")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def exact() -> onnx.ModelProto:
    """Return a few convolutions over an item as a picture: little to load, much to do for each."""
    random = np.random.default_rng(0)
    widths = [2, *[CHANNELS] * LAYERS, 2]
    nodes = [helper.make_node("Reshape", ["x", "picture"], ["h0"])]
    initializers = [
        numpy_helper.from_array(np.array([-1, 2, 16, 16], np.int64), "picture"),
        numpy_helper.from_array(np.array([-1, WIDTH], np.int64), "row"),
    ]
    for place, (taken, given) in enumerate(pairwise(widths)):
        weights = random.normal(0, (9 * taken) ** -0.5, (given, taken, 3, 3)).astype(np.float32)
        initializers.append(numpy_helper.from_array(weights, f"w{place}"))
        nodes.append(
            helper.make_node("Conv", [f"h{place}", f"w{place}"], [f"c{place}"], pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{place}"], [f"h{place + 1}"]))
    nodes.append(helper.make_node("Reshape", [f"h{len(widths) - 1}", "row"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "exact",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", WIDTH])],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compiled(folder: Path) -> headrace.CompiledPlan:
    onnx.save(exact(), folder / "exact.onnx")
    onnx.save(quick(), folder / "quick.onnx")
    (folder / "cascade.pipe").write_text(PIPE)
    return headrace.compile(folder / "cascade.pipe", schedule="server")


def items(percent: int) -> NDArray[np.float32]:
    """Return items of which so many are hard, mixed."""
    random = np.random.default_rng(1)
    xs = random.random((ITEMS, WIDTH), np.float32)
    hard = random.permutation(ITEMS) < round(ITEMS * percent / 100)
    xs[:, 0] = np.where(hard, 0.1, 0.9)
    return xs


def by_hand() -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    look, work = session(quick()), session(exact())

    def run(xs: NDArray[np.float32]) -> NDArray[np.float32]:
        hard = np.asarray(look.run(None, {"x": xs})[0]) < 0.5
        ys = xs.copy()
        if hard.any():
            ys[hard] = np.asarray(work.run(None, {"x": xs[hard]})[0])
        return ys

    return run


def main() -> int:
    arguments = options("What a cascade saves", rounds=31).parse_args()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        plan = compiled(Path(folder))
    run = by_hand()
    with headrace.load(plan, intra_op_threads=1) as app:
        for percent in HARD:
            xs = items(percent)
            for other in (app.both(xs=xs).y, run(xs)):
                np.testing.assert_allclose(app.cascade(xs=xs).y, other, rtol=1e-4, atol=1e-5)
            contenders = [
                Contender("headrace cascade", lambda xs=xs: app.cascade(xs=xs)),
                Contender("both models", lambda xs=xs: app.both(xs=xs)),
                Contender("by hand", lambda xs=xs: run(xs)),
            ]
            outcomes.append(
                measure(f"{percent}% hard", contenders, rounds=arguments.rounds, calls=10, warmup=5)
            )
    none, every = outcomes[0].timings[0].median, outcomes[-1].timings[0].median
    notes: list[str] = []
    for percent, outcome in zip(HARD, outcomes, strict=True):
        should = none + (every - none) * percent / 100
        taken = outcome.timings[0].median
        notes.append(
            f"{percent}% hard: {duration(taken)}, by its share {duration(should)} "
            f"({taken / should - 1:+.0%})"
        )
    report("cascade", outcomes, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
