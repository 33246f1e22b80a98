"""Makes `quick.onnx` and `exact.onnx`: which of two rings a point lies on, roughly and precisely.

    python examples/cascade/make_models.py

`quick` measures how far the point is from the middle. `exact` asks 400 known points, the near ones
most, which also tells rings that are not round.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, save

KNOWN = 400
WIDTH = 0.15  # how far a known point is asked


def ring(angle: NDArray[np.float64], label: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the distance from the middle at which a ring runs; the outer one has five waves."""
    return 1 + 0.8 * label + 0.35 * label * np.sin(5 * angle)


def points(count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return points f32[count, 2] near the rings, and which ring each is of."""
    random = np.random.default_rng(seed)
    label = np.arange(count) % 2
    angle = random.uniform(0, 2 * np.pi, count)
    distance = ring(angle, label) + random.normal(0, 0.05, count)
    where = np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)
    return where.astype(np.float32), label


def quick() -> ModelProto:
    """Return a model whose answer depends on the distance from the middle alone."""
    weights = {"middle": np.float32(1.4), "steep": np.array([[-8, 8]], np.float32)}
    nodes = [
        helper.make_node("ReduceL2", ["x"], ["distance"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["distance", "middle"], ["beyond"]),
        helper.make_node("Mul", ["beyond", "steep"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["p"], axis=1),
    ]
    return _model("quick", nodes, weights)


def exact() -> ModelProto:
    """Return a model in which known points vote, each with exp(-distance^2 / WIDTH^2)."""
    where, label = points(KNOWN, seed=1)
    weights = {
        "known": where.T[None],  # 1, 2, KNOWN
        "axis": np.array([2], np.int64),
        "narrow": np.float32(-1 / WIDTH**2),
        "votes": np.eye(2, dtype=np.float32)[label],
        "some": np.float32(1e-6),
    }
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["column"]),
        helper.make_node("Sub", ["column", "known"], ["apart"]),
        helper.make_node("ReduceSumSquare", ["apart"], ["squared"], axes=[1], keepdims=0),
        helper.make_node("Mul", ["squared", "narrow"], ["nearness"]),
        helper.make_node("Exp", ["nearness"], ["weight"]),
        helper.make_node("MatMul", ["weight", "votes"], ["counted"]),
        helper.make_node("Add", ["counted", "some"], ["never_none"]),
        helper.make_node("ReduceSum", ["never_none", "last"], ["all"], keepdims=1),
        helper.make_node("Div", ["never_none", "all"], ["p"]),
    ]
    return _model("exact", nodes, {**weights, "last": np.array([1], np.int64)})


def _model(
    name: str, nodes: Sequence[NodeProto], weights: "Mapping[str, NDArray[Any] | np.generic[Any]]"
) -> ModelProto:  # Any: of any dtype
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 2])
    p = helper.make_tensor_value_info("p", TensorProto.FLOAT, ["B", 2])
    initializers = [numpy_helper.from_array(np.asarray(value), n) for n, value in weights.items()]
    graph = helper.make_graph(nodes, name, [x], [p], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 10
    return made


if __name__ == "__main__":
    for made in (quick(), exact()):
        save(made, str(Path(__file__).with_name(f"{made.graph.name}.onnx")))
