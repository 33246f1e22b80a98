"""What an ONNX file says of its inputs and outputs, in the words of a configuration."""

from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from .config import data_type

_TYPES: dict[int, str] = {
    onnx.TensorProto.BOOL: "BOOL",
    onnx.TensorProto.UINT8: "UINT8",
    onnx.TensorProto.UINT16: "UINT16",
    onnx.TensorProto.UINT32: "UINT32",
    onnx.TensorProto.UINT64: "UINT64",
    onnx.TensorProto.INT8: "INT8",
    onnx.TensorProto.INT16: "INT16",
    onnx.TensorProto.INT32: "INT32",
    onnx.TensorProto.INT64: "INT64",
    onnx.TensorProto.FLOAT16: "FP16",
    onnx.TensorProto.FLOAT: "FP32",
    onnx.TensorProto.DOUBLE: "FP64",
    onnx.TensorProto.STRING: "STRING",
    onnx.TensorProto.BFLOAT16: "BF16",
}


@dataclass(frozen=True, slots=True)
class FileTensor:
    """`dims` with the batch axis, -1 where they are open; None where the file tells no rank."""

    name: str
    data_type: int
    dims: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """`defaults` are inputs that an initializer fills when they are left out."""

    inputs: tuple[FileTensor, ...]
    outputs: tuple[FileTensor, ...]
    defaults: tuple[FileTensor, ...]

    @property
    def batches(self) -> bool:
        """Whether all tensors leave their first axis open, as a tritonserver decides it."""
        dims = [one.dims for one in (*self.inputs, *self.outputs)]
        return all(bool(each) and each[0] == -1 for each in dims)


def read_onnx(path: Path) -> OnnxFile | None:
    """Read a file, or the `model.onnx` in a folder; None when it is none that can be read."""
    file = path / "model.onnx" if path.is_dir() else path
    try:
        graph = onnx.load(file, load_external_data=False).graph
    except (OSError, DecodeError):
        return None
    filled = {one.name for one in graph.initializer}
    filled |= {one.values.name for one in graph.sparse_initializer}
    return OnnxFile(
        tuple(_tensor(one) for one in graph.input if one.name not in filled),
        tuple(_tensor(one) for one in graph.output),
        tuple(_tensor(one) for one in graph.input if one.name in filled),
    )


def _tensor(info: onnx.ValueInfoProto) -> FileTensor:
    kind = info.type.tensor_type
    dims = None
    if kind.HasField("shape"):
        dims = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim)
    return FileTensor(info.name, data_type(_TYPES.get(kind.elem_type, "INVALID")), dims)
