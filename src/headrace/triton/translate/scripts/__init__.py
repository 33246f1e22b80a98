"""Scripts of Triton's Python backend that only call other models (BLS), written in the language.

In order of control flow: `program` reads a model's file as a `tree`, which is never run, and
follows what `execute` does with one request: `statements` walks its statements and what they
decide, `ways` joins what two ways have made, `loops` are those of Python; `reader` reads
expressions, which `expressions` computes, and `calls` what is called of Triton's, NumPy's and
Python's; `asking` writes calls of other models. `values` are what names hold meanwhile.

What is read of one request holds for all, as nothing may go from one to the next. Whatever is not
known here leaves the script what it is: a Python stage, with a note of the line and the reason.
"""
