"""A chain of ten small ONNX models: what a call costs, and what merging the ten saves.

Each model is a product with a 64 x 64 matrix and a ReLU. Ours is the embedded call of a pipeline
of ten models; the peers are ten `session.run` calls and one `session.run` of the ten merged by
hand, which is as fast as it can get. The difference to the latter is the fixed cost of a call.
Two subjects: a 64 x 64 input without a batch axis, and one row of 64 with one.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime
from harness import Contender, Outcome, cores, duration, measure, options, report
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import headrace

Matrix: TypeAlias = NDArray[np.float32]

LENGTH = 10
WIDTH = 64


def merged(weights: list[Matrix], rows: int | str) -> onnx.ModelProto:
    """Return the chain as one model, as one would write it by hand; one matrix makes one link."""
    nodes: list[onnx.NodeProto] = []
    value = "x"
    for place in range(len(weights)):
        target = "y" if place == len(weights) - 1 else f"h{place}"
        nodes.append(helper.make_node("MatMul", [value, f"w{place}"], [f"m{place}"]))
        nodes.append(helper.make_node("Relu", [f"m{place}"], [target]))
        value = target
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, len(weights[0])])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, len(weights[0])])],
        [numpy_helper.from_array(matrix, f"w{place}") for place, matrix in enumerate(weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write(folder: Path, weights: list[Matrix], rows: int | str) -> Path:
    """Write the ten models and the pipeline that calls one after the other."""
    item = f"f32[{WIDTH}]" if isinstance(rows, str) else f"f32[{rows}, {WIDTH}]"
    lines: list[str] = []
    value = "x"
    for place, matrix in enumerate(weights):
        onnx.save(merged([matrix], rows), folder / f"link{place}.onnx")
        lines.append(f'model link{place} = onnx "link{place}.onnx"')
        value = f"link{place}({value})"
    lines += [f"pipeline chain(x: {item}) -> (y: {item}) {{", f"    return y = {value}", "}"]
    pipe = folder / "chain.pipe"
    pipe.write_text("\n".join([*lines, ""]))
    return pipe


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )


def compare(rows: int | str, rounds: int, calls: int) -> Outcome:
    """Time the three ways; `rows` is a fixed number, or the name of a batch axis."""
    random = np.random.default_rng(0)
    weights: list[Matrix] = [
        random.normal(0, 0.125, size=(WIDTH, WIDTH)).astype(np.float32) for _ in range(LENGTH)
    ]
    x: Matrix = random.normal(size=(1 if isinstance(rows, str) else rows, WIDTH)).astype(np.float32)
    item = x[0] if isinstance(rows, str) else x
    links = [session(merged([matrix], rows)) for matrix in weights]
    whole = session(merged(weights, rows))

    def ten() -> Any:  # run() may return things other than arrays
        value: Any = x  # Any: as above
        for link in links:
            value = link.run(None, {"x": value})[0]
        return value

    def one() -> Any:  # Any: as above
        return whole.run(None, {"x": x})[0]

    with tempfile.TemporaryDirectory() as folder:
        plan = headrace.compile(write(Path(folder), weights, rows))
    with headrace.load(plan) as app:
        chain = app.chain

        def ours() -> object:
            return chain(x=item)

        np.testing.assert_array_equal(chain(x=item).y, np.reshape(ten(), item.shape))
        np.testing.assert_array_equal(chain(x=item).y, np.reshape(one(), item.shape))
        contenders = [
            Contender("headrace", ours),
            Contender("ten session.run", ten),
            Contender("one session.run", one),
        ]
        shape = " x ".join(map(str, item.shape))
        return measure(f"input {shape}", contenders, rounds=rounds, calls=calls, warmup=200)


def main() -> int:
    parser = options("A chain of ten small ONNX models", rounds=21)
    parser.add_argument("--calls", type=int, default=1000, help="calls a round, default 1000")
    arguments = parser.parse_args()
    with cores(1):
        outcomes = [compare(rows, arguments.rounds, arguments.calls) for rows in (WIDTH, "N")]
    notes = [
        f"{outcome.subject}: fixed cost over one session.run of the merged graph "
        f"{duration(outcome.ratios[1].extra)}"
        for outcome in outcomes
    ]
    report("chain", outcomes, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
