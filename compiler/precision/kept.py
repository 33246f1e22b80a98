"""Which nodes of a model stay in f32 when the others take halves, and why.

The first reason that holds is given. What needs no list is read off the schemas of ONNX: an input
that takes no halves there is given f32.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper

from ...stdlib.op import Array
from ..onnx_names import all_nodes
from .report import Precision

LARGEST: Final = 65504.0
"""The largest number that fp16 has; bf16 goes as far as f32."""

_SUMS: Final = "sums of many lose what halves cannot hold"
_POWERS: Final = "what is close to each other in goes far apart out"
_NORMS: Final = "its variance is a sum of squares"
_INDICES: Final = "it counts, and halves count to 2048 at most"

SENSITIVE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"),
                *("ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "CumSum", "CumProd"),
            ),
            _SUMS,
        ),
        **dict.fromkeys(("Exp", "Pow", "Log", "Softmax", "LogSoftmax", "Reciprocal"), _POWERS),
        **dict.fromkeys(
            (
                *("LayerNormalization", "InstanceNormalization", "GroupNormalization"),
                *("MeanVarianceNormalization", "RMSNormalization", "LpNormalization"),
            ),
            _NORMS,
        ),
        **dict.fromkeys(("Range", "NonMaxSuppression", "OneHot", "Multinomial"), _INDICES),
    }
)

_BYTES: Final = frozenset({onnx.TensorProto.INT8, onnx.TensorProto.UINT8})
_QUANTISED: Final = frozenset(
    {
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul"),
        *("DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "MatMulNBits", "QAttention", "QGemm"),
    }
)


def quantised_by(model: onnx.ModelProto) -> str | None:
    """Return the op by which a model is seen to be quantised already; None of one that is not."""
    nodes = all_nodes(model.graph)
    return next((node.op_type for node in nodes if node.op_type in _QUANTISED), None)


def is_of_bytes(model: onnx.ModelProto) -> bool:
    """Whether most of a model's weights are bytes, whatever makes numbers of them."""
    counts = {True: 0, False: 0}
    for tensor in model.graph.initializer:
        counts[tensor.data_type in _BYTES] += math.prod(tensor.dims)
    return counts[True] > counts[False]


def constant_reason(name: str, value: Array, precision: Precision) -> str | None:
    """Return why a node that reads a constant stays in f32; None where the constant is harmless."""
    finite = np.abs(value[np.isfinite(value)].astype(np.float64))
    if precision is not Precision.FP16 or not finite.size:
        return None
    if finite.max() > LARGEST:
        return f"its constant `{name}` goes to {finite.max():.4g}, and fp16 to {LARGEST:.0f}"
    if value.size == 1 and finite.max() and not np.float16(finite.max()):
        return f"its constant {finite.max():.4g} is 0 in fp16"
    return None


def range_reason(
    node: onnx.NodeProto, greatest: Mapping[str, float], precision: Precision
) -> str | None:
    """Return why a node stays in f32 by what its tensors came to; None where they fit."""
    if precision is not Precision.FP16:
        return None
    for name in (*node.output, *node.input):
        if greatest.get(name, 0.0) > LARGEST:
            return f"`{name}` goes to {greatest[name]:.4g}, and fp16 to {LARGEST:.0f}"
    return None


def as_array(tensor: onnx.TensorProto) -> Array:
    return numpy_helper.to_array(tensor)
