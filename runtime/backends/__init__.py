"""Backends: what runs a segment, one kind a file.

onnx.py (ONNX Runtime) · python.py (functions) · python_model.py (classes, made once per instance)
"""
