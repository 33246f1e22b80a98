"""Backends: what runs a segment, one a file, which has the name that a plan calls it by.

onnx.py · onnx_tensorrt.py · onnx_tensorrt_rtx.py (ONNX Runtime) · tensorrt.py · tensorrt_rtx.py
(engines) · openvino.py · torch.py · tensorflow.py · litert.py · remote.py (a model of another
server) · triton_python.py (files of Triton's Python backend) · triton_ragged.py (ONNX models of its
repositories that take rows in one line) · triton_bls.py (of the tritonserver that this is a part
of) · native.py (C, through `headrace.h`) · kernel.py (chains of ops as generated code) · python.py
(functions, and classes made once per instance) · op.py (the ops of the standard library)
"""
