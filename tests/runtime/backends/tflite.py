"""TensorFlow Lite files of one or two operators, written by the schema that LiteRT brings along."""
# pyright: reportMissingImports=false, reportMissingModuleSource=false

from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated

from headrace.dsl.types import DType

schema: Any = schema_py_generated  # Any: its types are those it gives, and it takes others

_KINDS = {
    DType.BOOL: "BOOL", DType.I8: "INT8", DType.I16: "INT16", DType.I32: "INT32",
    DType.I64: "INT64", DType.U8: "UINT8", DType.U16: "UINT16", DType.U32: "UINT32",
    DType.U64: "UINT64", DType.F16: "FLOAT16", DType.BF16: "BFLOAT16", DType.F32: "FLOAT32",
    DType.F64: "FLOAT64",
}  # fmt: skip


def write_same(path: Path, dtype: DType) -> None:
    """Write `y = transpose(x, [0, 1])`, which most dtypes have."""
    kind = getattr(schema.TensorType, _KINDS[dtype])
    order = _tensor("order", schema.TensorType.INT32, 1, [2])
    tensors = [_tensor("x", kind), order, _tensor("y", kind)]
    code = schema.BuiltinOperator.TRANSPOSE
    operator = _operator(
        0, [0, 1], [2], schema.BuiltinOptions.TransposeOptions, "TransposeOptionsT"
    )
    content = np.array([0, 1], np.int32).tobytes()
    _write(path, tensors, [code], [operator], [0], [2], {"x": 0}, {"y": 2}, [b"", content])


def write_pair(path: Path) -> None:
    """Write the sum and the difference of `a` and `b`; the difference comes first."""
    f32 = schema.TensorType.FLOAT32
    tensors = [_tensor(name, f32) for name in ("a", "b", "difference", "total")]
    codes = [schema.BuiltinOperator.SUB, schema.BuiltinOperator.ADD]
    operators = [
        _operator(0, [0, 1], [2], schema.BuiltinOptions.SubOptions, "SubOptionsT"),
        _operator(1, [0, 1], [3], schema.BuiltinOptions.AddOptions, "AddOptionsT"),
    ]
    names = {"a": 0, "b": 1}, {"difference": 2, "total": 3}
    _write(path, tensors, codes, operators, [0, 1], [2, 3], *names, [b""])


def _tensor(name: str, kind: int, buffer: int = 0, shape: "list[int] | None" = None) -> Any:
    made = schema.TensorT()
    made.name, made.type, made.buffer = name.encode(), kind, buffer
    made.shape = shape or [1, 1]
    made.shapeSignature = None if shape else [-1, -1]
    return made


def _operator(code: int, inputs: "list[int]", outputs: "list[int]", kind: int, options: str) -> Any:
    made = schema.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = code, inputs, outputs
    made.builtinOptionsType, made.builtinOptions = kind, getattr(schema, options)()
    return made


def _write(
    path: Path,
    tensors: "list[Any]",
    codes: "list[int]",
    operators: "list[Any]",
    inputs: "list[int]",
    outputs: "list[int]",
    taken: "dict[str, int]",
    given: "dict[str, int]",
    buffers: "list[bytes]",
) -> None:
    graph = schema.SubGraphT()
    graph.tensors, graph.operators = tensors, operators
    graph.inputs, graph.outputs = inputs, outputs
    model = schema.ModelT()
    model.version, model.subgraphs, model.operatorCodes = 3, [graph], []
    for one in codes:
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = one
        code.version = 1
        model.operatorCodes.append(code)
    model.buffers = []
    for content in buffers:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(content, np.uint8) if content else None
        model.buffers.append(buffer)
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = b"serving_default", 0
    signature.inputs, signature.outputs = _map(taken), _map(given)
    model.signatureDefs = [signature]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(bytes(builder.Output()))


def _map(named: "dict[str, int]") -> "list[Any]":
    made: list[Any] = []
    for name, index in named.items():
        one = schema.TensorMapT()
        one.name, one.tensorIndex = name.encode(), index
        made.append(one)
    return made
