"""ONNX models whose schedule gives them to TensorRT; what that cannot take goes to CUDA."""

from ..onnx_backend import onnx_backend

BACKEND = onnx_backend("tensorrt")
