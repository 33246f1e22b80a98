"""Generated kernels at run time: built for the machine, kept, and started.

nvrtc.py (builds them for GPUs, by NVIDIA's library) · host.py (for this processor, by its C++
compiler) · kept.py (what was built is kept in files) · ahead.py (code for GPUs that are not here,
in the plan) · strides.py (what a launch is told of its arrays) · cuda.py (starts them on a GPU) ·
session.py (a kernel as a stage runs it)
"""
