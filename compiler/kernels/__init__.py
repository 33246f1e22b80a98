"""Kernels that are written for chains of ops: one launch where each op would have been a step.

pay.py (what copies a chain saves on which device) · chains.py (which ops are one kernel) · write.py
(a chain as C++, by kernel.cu.j2) · c_types.py (dtypes, literals and conversions there) ·
`../kernel_file.py` (what a plan holds of it)
"""
