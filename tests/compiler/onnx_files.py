"""Small ONNX files with the signatures that tests ask for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence["int | str | None"]


def write_model(
    path: Path,
    inputs: Mapping[str, Dims],
    outputs: Mapping[str, Dims],
    *,
    dtype: int = TensorProto.FLOAT,
    metadata: Mapping[str, str] | None = None,
    defaults: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Write a model whose outputs are its first input: only its signature matters."""
    first = next(iter(inputs))
    graph = helper.make_graph(
        [helper.make_node("Identity", [first], [name]) for name in outputs],
        "made",
        [helper.make_tensor_value_info(name, dtype, list(dims)) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(name, dtype, list(dims)) for name, dims in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (defaults or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    if metadata:
        helper.set_model_props(model, dict(metadata))
    onnx.save(model, path)
    return path
