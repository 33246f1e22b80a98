"""ONNX models whose schedule gives them to TensorRT for RTX, which builds engines in seconds."""

from ..onnx_backend import onnx_backend

BACKEND = onnx_backend("tensorrt_rtx")
