"""Makes the models of the soak, whose arithmetic is exact: whole numbers in floats."""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


def make(folder: Path) -> None:
    """Write dense.onnx (x @ w) and add.onnx (n = x + s, y = -n)."""
    weight = np.random.default_rng(0).integers(0, 3, (8, 8)).astype(np.float32)
    sizes = {"x": 8, "y": 8}
    _save(folder / "dense.onnx", [("MatMul", ["x", "w"], "y")], "x", "y", sizes, {"w": weight})
    nodes = [("Add", ["x", "s"], "n"), ("Neg", ["n"], "y")]
    _save(folder / "add.onnx", nodes, "xs", "ny", dict.fromkeys("xsny", 2), {})


def _save(
    path: Path,
    nodes: list[tuple[str, list[str], str]],
    inputs: str,
    outputs: str,
    sizes: dict[str, int],
    weights: dict[str, np.ndarray],
) -> None:
    infos = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])
        for name, size in sizes.items()
    }
    graph = helper.make_graph(
        [helper.make_node(kind, given, [out]) for kind, given, out in nodes],
        path.stem,
        [infos[name] for name in inputs],
        [infos[name] for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, str(path))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
