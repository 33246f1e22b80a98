"""Typed stubs: a module with a method for each pipeline of a plan or a server.

`write.py` makes the text of one, of the template `module.py.j2`: `names.py` gives everything a name
that Python allows, `annotations.py` says what is taken and given. `calls.py` is what such a module
runs on, which is imported from here.
"""

from .calls import (
    LEFT_OUT,
    Call,
    Parameters,
    Sequence,
    SequenceCall,
    Stream,
    StreamSequence,
    StreamSequenceCall,
    Stub,
    Tensor,
    pipeline,
    sequence,
    stream,
    stream_sequence,
)

__all__ = [
    "LEFT_OUT",
    "Call",
    "Parameters",
    "Sequence",
    "SequenceCall",
    "Stream",
    "StreamSequence",
    "StreamSequenceCall",
    "Stub",
    "Tensor",
    "pipeline",
    "sequence",
    "stream",
    "stream_sequence",
]
