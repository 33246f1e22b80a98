"""Backends: what runs a segment, one kind a file. onnx.py · python.py · python_model.py"""
