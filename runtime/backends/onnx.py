"""ONNX models, on ONNX Runtime: on the processor or, by CUDA, on a GPU."""

from ..onnx_backend import onnx_backend

BACKEND = onnx_backend()
