"""What an ONNX file says of itself: inputs, outputs, metadata. No weights are looked at."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..dsl.types import DType
from ..stdlib.dtypes import to_onnx

if TYPE_CHECKING:
    from onnx import TensorShapeProto, ValueInfoProto

FileDim: TypeAlias = int | str | None
"""A fixed size, a symbolic name, or nothing that is known."""

_DTYPES = {to_onnx(dtype): dtype for dtype in DType if dtype is not DType.BYTES}

# Names that exporters write for "unknown": equal ones do not stand for equal sizes.
_PLACEHOLDERS = frozenset({"", "?", "None", "none", "-1"})


class NotOnnx(Exception):
    """The file is no ONNX model; the text says why."""


@dataclass(frozen=True, slots=True)
class FileTensor:
    """An input or output. `dtype` is None when the language has none for it (sequences, complex
    numbers); `dims` is None when the file does not even give the rank. An input with an
    initialiser of its own may be left out."""

    name: str
    dtype: DType | None
    dims: tuple[FileDim, ...] | None
    optional: bool = False

    def __str__(self) -> str:
        dtype = self.dtype.value if self.dtype is not None else "(no tensor of the language)"
        if self.dims is None:
            return f"{self.name}: {dtype} of unknown rank"
        dims = ", ".join("_" if dim is None else str(dim) for dim in self.dims)
        return f"{self.name}: {dtype}[{dims}]" if self.dims else f"{self.name}: {dtype}"


@dataclass(frozen=True, slots=True)
class FileSignature:
    """The signature of an ONNX file, its batch axis included."""

    inputs: tuple[FileTensor, ...]
    outputs: tuple[FileTensor, ...]
    metadata: tuple[tuple[str, str], ...]

    @property
    def required_inputs(self) -> tuple[FileTensor, ...]:
        """The inputs that a call must give: an initialiser is the default of the others."""
        return tuple(one for one in self.inputs if not one.optional)

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.required_inputs))
        return f"({inputs}) -> ({', '.join(map(str, self.outputs))})"


def read_signature(path: Path) -> FileSignature:
    """Read the signature of an ONNX file; raises NotOnnx, or OSError when it cannot be read."""
    import onnx  # costs 100 ms, and a check of declared signatures does without
    from google.protobuf.message import DecodeError

    try:
        model = onnx.ModelProto.FromString(path.read_bytes())
    except DecodeError as error:
        raise NotOnnx("its bytes are not an ONNX model") from error
    graph = model.graph
    if not graph.output:
        raise NotOnnx("it holds no graph with outputs")
    held = {one.name for one in graph.initializer} | {
        one.values.name for one in graph.sparse_initializer
    }
    return FileSignature(
        tuple(_tensor(one, one.name in held) for one in graph.input),
        tuple(_tensor(one, False) for one in graph.output),
        tuple((one.key, one.value) for one in model.metadata_props),
    )


def pack(path: Path, free_axes: tuple[tuple[str, int], ...]) -> bytes:
    """Return the bytes of a model with its external weights in it.

    `free_axes` names dimensions that the file fixes though they are free (a batch of 1): they
    become symbolic. Without those and without external weights the file's own bytes are returned.
    Raises NotOnnx when the weights are not there, and for a model of more than 2 GiB, which is the
    most one message can hold.
    """
    import onnx  # as in read_signature
    from onnx.external_data_helper import load_external_data_for_model, uses_external_data

    content = path.read_bytes()
    model = onnx.ModelProto.FromString(content)
    external = any(uses_external_data(one) for one in model.graph.initializer)
    if not external and not free_axes:
        return content
    if external:
        try:
            load_external_data_for_model(model, str(path.parent))
        except onnx.checker.ValidationError as error:
            raise NotOnnx(f"its weights cannot be read: {error}") from error
    for name, axis in free_axes:
        for value in (*model.graph.input, *model.graph.output):
            if value.name == name:
                value.type.tensor_type.shape.dim[axis].dim_param = "batch"
    if free_axes:
        del model.graph.value_info[:]  # shapes inside, which repeat the fixed size
    try:
        return model.SerializeToString(deterministic=True)
    except ValueError as error:
        raise NotOnnx("with its weights it is larger than 2 GiB") from error


def _tensor(value: "ValueInfoProto", optional: bool) -> FileTensor:
    kind = value.type
    if kind.WhichOneof("value") != "tensor_type":
        return FileTensor(value.name, None, None, optional)
    dtype = _DTYPES.get(kind.tensor_type.elem_type)
    if not kind.tensor_type.HasField("shape"):
        return FileTensor(value.name, dtype, None, optional)
    dims = tuple(_dim(dim) for dim in kind.tensor_type.shape.dim)
    return FileTensor(value.name, dtype, dims, optional)


def _dim(dim: "TensorShapeProto.Dimension") -> FileDim:
    if dim.WhichOneof("value") == "dim_value":
        return dim.dim_value if dim.dim_value >= 0 else None
    return None if dim.dim_param in _PLACEHOLDERS else dim.dim_param
