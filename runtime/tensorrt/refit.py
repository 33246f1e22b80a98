"""Other weights in an engine that has been built: seconds where a build takes minutes.

Models whose `skeleton` is the same differ in floats alone. All else (shapes, axes, what a Gather
takes) may have decided how the engine was built.
"""

from hashlib import sha256

import onnx

from .build import Request
from .engine import Engine

_FLOATS = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
)


def skeleton(content: bytes) -> str:
    """Return a digest of a model without its weights."""
    model = onnx.ModelProto.FromString(content)
    for tensor in model.graph.initializer:
        if tensor.data_type in _FLOATS:
            for field in ("raw_data", "float_data", "int32_data"):
                tensor.ClearField(field)
    return sha256(model.SerializeToString(deterministic=True)).hexdigest()


def refitted(engine: Engine, content: bytes, request: Request) -> bytes:
    """Return an engine with the weights of a model; raises LoadError where it does not fit."""
    failed = engine.refit(content)
    if failed is not None:
        raise request.refused(f"its engine does not take other weights: {failed}")
    return engine.serialized()
