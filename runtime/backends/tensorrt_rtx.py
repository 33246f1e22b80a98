"""ONNX models whose schedule gives them to TensorRT for RTX, which builds engines in seconds, and
where there is no GPU."""

from ..tensorrt.opening import engine_backend

BACKEND = engine_backend("tensorrt_rtx")
