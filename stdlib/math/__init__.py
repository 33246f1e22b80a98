"""Arithmetic, comparison, logic and real functions, one element at a time.

Operands are broadcast as NumPy does. Both have one dtype: none is ever converted implicitly, and
a number literal takes the dtype of the other side. Integers wrap around on overflow. On integers
`/` rounds towards zero and `%` has the sign of its left side, as in Rust; dividing an integer by
zero is an error. NaN follows IEEE 754, and `maximum`, `minimum` and `clip` pass it on.
`and` and `or` compute both sides.
"""
