"""ONNX models whose schedule gives them to TensorRT, which builds an engine of each segment."""

from ..tensorrt.opening import engine_backend

BACKEND = engine_backend("tensorrt")
