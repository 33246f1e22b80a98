"""The file of a model of Triton's, whose outputs are declared as its configuration has them.

Triton's ONNX backend holds the declared shapes of outputs to the configuration exactly, -1 to what
is open and numbers to numbers. What the outputs were before is kept beside it (`restored`).
"""

from collections.abc import Sequence

from onnx import GraphProto, ModelProto

from .stages import Served, real_dims


def model_file(served: Served, content: bytes) -> bytes:
    """Return the bytes of the file; those of the plan where nothing differs."""
    segment = served.segment
    outputs = zip(
        *(segment.output_names, segment.signature.results, segment.output_axes), strict=True
    )
    wanted = {
        name: _full(served, real_dims(field, axis, served.form)) for name, field, axis in outputs
    }
    model = ModelProto.FromString(content)
    changed = False
    for output in model.graph.output:
        dims = wanted[output.name]
        tensor = output.type.tensor_type
        found = [one.dim_value if one.HasField("dim_value") else -1 for one in tensor.shape.dim]
        if found != dims or not tensor.HasField("shape"):
            changed = True
            tensor.ClearField("shape")
            tensor.shape.SetInParent()  # of a scalar it is there, and empty
            for size in dims:
                dim = tensor.shape.dim.add()
                if size >= 0:
                    dim.dim_value = size
    return model.SerializeToString() if changed else content


def outputs_of(content: bytes) -> bytes:
    """Return what a model declares of its outputs."""
    return GraphProto(output=ModelProto.FromString(content).graph.output).SerializeToString()


def restored(content: bytes, outputs: bytes) -> bytes:
    """Return a model with outputs as `outputs_of` has given them."""
    model = ModelProto.FromString(content)
    del model.graph.output[:]
    model.graph.output.extend(GraphProto.FromString(outputs).output)
    return model.SerializeToString()


def _full(served: Served, dims: Sequence[int]) -> list[int]:
    """Return the dims with the axis that a configuration with rows leaves out."""
    return [-1, *dims] if served.rows else list(dims)
