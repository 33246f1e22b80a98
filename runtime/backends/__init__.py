"""Backends: what runs a segment, one kind a file, found by listing this folder.

onnx.py (ONNX Runtime) · python.py (functions, and classes made once per instance) · op.py (the ops
of the standard library)
"""
