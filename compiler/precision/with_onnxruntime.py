"""All that is done to models with ONNX Runtime: readied, watched, quantised, run.

Nothing else of the compiler imports it. Models are run on the CPU, row by row, on one thread where
ranges are taken and results compared, so that the same rows give the same figures.
"""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, shape_inference

from ...dsl.diagnostic import Refusal
from ...stdlib.op import Array, Decline
from ..onnx_names import all_nodes, tensor_names, unused
from .calibration import Range, Row
from .opsets import PER_CHANNEL, at_least

PRODUCTS: Final = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""What is quantised where ranges are known. More is no quicker on a processor, and further off."""

WEIGHTED: Final = ("Gemm", "MatMul", "LSTM")
"""What is quantised where the ranges of each run are taken as it comes."""


_NO_BIAS: Final = {"QuantizeBias": False, "QDQDisableWeightAdjustForInt32Bias": True}
"""Biases stay in f32, and weights need not be scaled to suit them."""


def readied(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model as it is to be quantised: literals folded, normalisation inside of
    convolutions, an opset that has scales for channels, names for nodes. Raises Decline."""
    library = _library()
    options = _options(library)
    options.graph_optimization_level = library.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(path)
        _opened(library, model, options)
        new = onnx.ModelProto.FromString(path.read_bytes())
    used = {node.domain for node in all_nodes(new.graph)} | {""}
    kept = [one for one in new.opset_import if one.domain in used]
    del new.opset_import[:]
    new.opset_import.extend(kept)
    new = at_least(new, PER_CHANNEL)
    for number, node in enumerate(new.graph.node):
        node.name = f"{node.op_type}_{number}"
    new.producer_name, new.producer_version = "headrace", ""
    return new


def ranges(model: onnx.ModelProto, rows: Iterable[Row]) -> tuple[Range, ...]:
    """Return the range of each f32 tensor of a model over rows; raises Decline for one that is not
    finite, which could have no scale."""
    library = _library()
    watched = _inferred(model)
    graph = watched.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    of_type = {value.name: value.type.tensor_type.elem_type for value in values}
    names = [name for name, type in of_type.items() if type == TensorProto.FLOAT]
    taken, ends = tensor_names(graph), list[str]()
    for name in names:
        for op in ("ReduceMin", "ReduceMax"):
            ends.append(unused(f"{name}.{op}", taken))
            graph.node.append(helper.make_node(op, [name], [ends[-1]], keepdims=0))
            graph.output.append(helper.make_tensor_value_info(ends[-1], TensorProto.FLOAT, []))
    session = _opened(library, watched, _options(library))
    found: Array | None = None
    for feeds in rows:
        now = np.array(session.run(ends, dict(feeds)), np.float32).reshape(-1, 2)
        if found is None:
            found = now
        else:
            low, high = np.minimum(found[:, 0], now[:, 0]), np.maximum(found[:, 1], now[:, 1])
            found = np.stack([low, high], axis=1)
    assert found is not None, "there are rows"
    whole: list[Range] = []
    for name, (low, high) in zip(names, found.tolist(), strict=True):
        if low > high:  # it never had an element
            continue
        if not (np.isfinite(low) and np.isfinite(high)):
            raise Decline(f"`{name}` is not finite on the samples: it goes from {low} to {high}")
        whole.append(Range(name, low, high))
    return tuple(whole)


def quantised(
    model: onnx.ModelProto, found: Sequence[Range], *, symmetric: bool
) -> onnx.ModelProto:
    """Return a readied model in int8, a scale for each channel of a weight. Raises Decline."""
    library = _library("onnxruntime.quantization")
    known = {
        one.tensor: library.TensorData(lowest=np.float32(one.low), highest=np.float32(one.high))
        for one in found
    }
    method = library.CalibrationMethod.MinMax
    activation = library.QuantType.QInt8 if symmetric else library.QuantType.QUInt8

    def made(options: dict[str, bool]) -> onnx.ModelProto:
        quantizer = library.QDQQuantizer(
            _inferred(model),
            True,  # a scale for each channel
            False,  # all eight bits
            library.QuantType.QInt8,
            activation,
            library.TensorsData(method, known),
            [],
            [],
            list(PRODUCTS),
            options,
        )
        return _made(quantizer, "QuantizeLinear")

    if symmetric:  # TensorRT knows no bias in int32 and wants each pair for itself
        return made({"ActivationSymmetric": True, "QuantizeBias": False, "DedicatedQDQPair": True})
    try:
        return made({})
    except Decline:  # of some products it cannot tell the scale of a bias
        return made(_NO_BIAS)


def quantised_at_run(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a readied model whose weights are int8 and whose inputs are quantised at each run, by
    the ranges that they have then. Raises Decline."""
    library = _library("onnxruntime.quantization")
    inner = _library("onnxruntime.quantization.onnx_quantizer")
    quantizer = inner.ONNXQuantizer(
        _inferred(model),
        True,
        False,
        library.QuantizationMode.IntegerOps,
        False,  # the ranges are not known
        library.QuantType.QInt8,
        library.QuantType.QUInt8,
        None,
        [],
        [],
        list(WEIGHTED),
        {"MatMulConstBOnly": True},
    )
    return _made(quantizer, "DynamicQuantizeLinear", "DynamicQuantizeLSTM")


def results(model: onnx.ModelProto, rows: Iterable[Row], names: Sequence[str]) -> list[list[Array]]:
    """Return what a model gives for each row, in the order of `names`. Raises Decline."""
    library = _library()
    session = _opened(library, model, _options(library))
    return [session.run(list(names), dict(feeds)) for feeds in rows]


def _made(quantizer: Any, *wanted: str) -> onnx.ModelProto:  # Any: untyped classes of a library
    try:
        quantizer.quantize_model()
    except (ValueError, RuntimeError, KeyError, AttributeError) as error:
        raise Decline(f"onnxruntime.quantization does not take it: {error}") from error
    new: onnx.ModelProto = quantizer.model.model
    del new.graph.value_info[:]
    new.producer_name, new.producer_version = "headrace", ""
    if not any(node.op_type in wanted for node in new.graph.node):
        raise Decline(f"nothing in it can be quantised: it has no {', '.join(PRODUCTS)} of its own")
    return new


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return shape_inference.infer_shapes(model, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError) as error:
        raise Decline(f"its shapes cannot be told: {error}") from error


def _library(name: str = "onnxruntime") -> ModuleType:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise Refusal(
            "HR502",
            "`precision` takes ONNX Runtime to rewrite a model with, and it is not installed",
            "`pip install 'headrace[cpu]'`, or 'headrace[gpu]'",
        ) from error


def _options(library: ModuleType) -> Any:  # Any: of an untyped library
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def _opened(library: ModuleType, model: onnx.ModelProto, options: Any) -> Any:  # Any: as above
    try:
        content = model.SerializeToString()
        return library.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common class
        raise Decline(f"ONNX Runtime does not take it: {error}") from error
