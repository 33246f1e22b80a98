"""ONNX models on ONNX Runtime with its provider of TensorRT for RTX."""

from ..onnx_backend import onnx_backend

BACKEND = onnx_backend("tensorrt_rtx")
