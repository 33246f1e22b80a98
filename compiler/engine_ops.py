"""Which ONNX models TensorRT takes, by their ops and dtypes, before any builder is there.

The ops are those that the parsers of TensorRT for RTX 1.7 and of TensorRT 10 name as unsupported;
what else a model has that a version does not take, its builder says, with place and cure.
"""

from collections.abc import Iterator
from typing import Final

import onnx

from ..dsl.types import DType, OptionalType, Signature, TensorType

_OPS: Final = frozenset(
    (
        *("AffineGrid", "Bernoulli", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot"),
        *("BitwiseOr", "BitwiseXor", "CenterCropPad", "Col2Im", "Compress", "ConcatFromSequence"),
        *("ConvInteger", "CumProd", "DFT", "DeformConv", "Det", "DynamicQuantizeLinear"),
        *("ImageDecoder", "MatMulInteger", "MaxRoiPool", "MaxUnpool", "MelWeightMatrix"),
        *("Multinomial", "NegativeLogLikelihoodLoss", "Optional", "OptionalGetElement"),
        *("OptionalHasElement", "QLinearConv", "QLinearMatMul", "RegexFullMatch", "SequenceAt"),
        *("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
        *("SequenceLength", "SequenceMap", "SoftmaxCrossEntropyLoss", "SplitToSequence"),
        *("StringConcat", "StringNormalizer", "StringSplit", "SwiGLU", "TfIdfVectorizer"),
        *("Unique",),
    )
)
"""Ops of ONNX that neither takes."""

_PLUGGED: Final = frozenset({"NonZero"})
"""Ops that come from a library of plugins, which TensorRT for RTX is without."""

_DOMAINS: Final = ("", "ai.onnx")
_DTYPES: Final = frozenset(
    {DType.BOOL, DType.I32, DType.I64, DType.U8, DType.F16, DType.BF16, DType.F32}
)
_LIBRARY: Final = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT for RTX"}


def refusal(model: onnx.ModelProto, signature: Signature, backend: str) -> str | None:
    """Return why a library takes no engine of a model; None where it may."""
    library = _LIBRARY[backend]
    for field in (*signature.params, *signature.results):
        if isinstance(field.type, OptionalType):
            return f"{library} wants all inputs, and `{field.name}` may be absent"
        if isinstance(field.type, TensorType) and field.type.dtype not in _DTYPES:
            return f"{library} has no {field.type.dtype.value}, which `{field.name}` is"
    functions = {(one.domain, one.name) for one in model.functions}
    inside = [node for one in model.functions for node in one.node]
    for node in (*_nodes(model.graph), *inside):
        if node.domain not in _DOMAINS and (node.domain, node.op_type) not in functions:
            return f"{library} does not take {node.domain}.{node.op_type}"
        if node.op_type in _OPS or (backend == "tensorrt_rtx" and node.op_type in _PLUGGED):
            return f"{library} does not take {node.op_type}"
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.DOUBLE:
            return f"{library} has no f64, which `{tensor.name}` is"
    return None


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)
