"""ONNX models on ONNX Runtime with its TensorRT provider; what that cannot take goes to CUDA."""

from ..onnx_backend import onnx_backend

BACKEND = onnx_backend("tensorrt")
