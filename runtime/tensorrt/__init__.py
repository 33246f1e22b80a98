"""TensorRT and TensorRT for RTX: engines built of a plan's ONNX segments, and how they are run.

features.py (what a version has, as tables) · package.py (imports the library; nothing else does) ·
build.py (a segment to the bytes of an engine) · report.py (what was built) · cache.py (bytes on
disk, built once) · engine.py (bytes to what runs, and its contexts) · refit.py (other weights in
it) · outputs.py (results whose size only the run tells) · session.py (runs on a device's values) ·
opening.py (the backend) · ahead.py (builds all that a plan wants before anybody loads it)

Whether there is a GPU (`../devices/cuda_driver.py`) is asked before the library may look for one.
"""
