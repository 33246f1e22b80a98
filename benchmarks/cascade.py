"""A cascade with k% hard items: its time must go by k, against running both models on all.

64 items a request; a quick model looks at each, and an exact one, some forty times as expensive, at
those that the quick one is not sure of. Both models run in batches on either side. What a cascade
should take is what none and all being hard take, weighted by k; printed is how far it is from that.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from chain import merged
from harness import Contender, Outcome, duration, measure, options, report
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import headrace

ITEMS, WIDTH, LAYERS = 64, 512, 4
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


def compiled(folder: Path) -> headrace.CompiledPlan:
    random = np.random.default_rng(0)
    weights = [
        random.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32) for _ in range(LAYERS)
    ]
    onnx.save(merged(weights, "N"), folder / "exact.onnx")
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


def main() -> int:
    arguments = options("What a cascade saves", rounds=31).parse_args()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        plan = compiled(Path(folder))
    with headrace.load(plan, intra_op_threads=1) as app:
        for percent in HARD:
            xs = items(percent)
            np.testing.assert_allclose(app.cascade(xs=xs).y, app.both(xs=xs).y, rtol=1e-4)
            contenders = [
                Contender("headrace cascade", lambda xs=xs: app.cascade(xs=xs)),
                Contender("both models", lambda xs=xs: app.both(xs=xs)),
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
