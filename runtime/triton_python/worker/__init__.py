"""headrace.runtime.triton_python.worker: the folder that a worker finds
`triton_python_backend_utils` in.

Nothing in here imports headrace, and nothing but the standard library and NumPy: a model may run in
an interpreter of its own, in which headrace is not installed.
"""
