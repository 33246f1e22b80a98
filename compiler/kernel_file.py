"""A generated kernel as plans hold it: its text, and how its arrays are walked.

The text is C++ that CUDA's compiler takes as well. It has two entries, whose arguments all are 64
bits: `kernel_flat` for arrays that lie as the results do, with the addresses of inputs (one for
each of `walks`) and results and the number of elements; `kernel_strided` for all others, which is
told as well the sizes of all loops and, for each walk and table, its stride in each loop, in
elements. With inner loops, or with tables, there is only the second.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass

from ..dsl.types import DType
from .literal_codec import Attachments, Malformed
from .plan_codec import Codecs

FLAT, STRIDED = "kernel_flat", "kernel_strided"


@dataclass(frozen=True, slots=True)
class Walk:
    """An input is read with its axes along these loops; loop 0 is the batch, which is no axis of
    an item. Of several walks of one input each has the pointer."""

    input: int
    loops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A literal with axes, which the text holds, along these loops."""

    shape: tuple[int, ...]
    loops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """The text built for one architecture (`sm_87`), in base64."""

    architecture: str
    content: str

    @classmethod
    def of(cls, architecture: str, content: bytes) -> "Image":
        return cls(architecture, b64encode(content).decode("ascii"))

    @property
    def bytes(self) -> bytes:
        return b64decode(self.content, validate=True)


@dataclass(frozen=True, slots=True)
class Kernel:
    """`outer` loops are those of the results (the batch, then an item's axes), `inner` loops what
    is reduced; inner ones are numbered behind the outer ones."""

    text: str
    outer: int
    inner: int
    inputs: tuple[DType, ...]
    outputs: tuple[DType, ...]
    walks: tuple[Walk, ...]
    tables: tuple[Table, ...]
    images: tuple[Image, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        return (STRIDED,) if self.inner or self.tables else (FLAT, STRIDED)


def to_bytes(kernel: Kernel) -> bytes:
    """Return the kernel as a plan's blob: equal ones have equal bytes."""
    form = Codecs(Attachments()).of(Kernel, Kernel).encode(kernel)
    return json.dumps(form, sort_keys=True, separators=(",", ":")).encode()


def read(content: bytes) -> Kernel:
    """Return the kernel of a blob; raises ValueError for what is none."""
    try:
        kernel: Kernel = Codecs(Attachments({})).of(Kernel, Kernel).decode(json.loads(content))
    except Malformed as error:
        raise ValueError(f"this is no kernel: {error}") from error
    wrong = _wrong(kernel)
    if wrong:
        raise ValueError(f"this is no kernel: {wrong}")
    return kernel


def _wrong(kernel: Kernel) -> str:
    """Return what does not fit together, "" where all does."""
    if kernel.outer < 1 or kernel.inner < 0 or not kernel.outputs:
        return f"it gives {len(kernel.outputs)} arrays in {kernel.outer} loops"
    loops = kernel.outer + kernel.inner
    for one in (*kernel.walks, *kernel.tables):
        if not all(0 < loop < loops for loop in one.loops) or len(set(one.loops)) < len(one.loops):
            return f"an array goes along the loops {one.loops} of {loops}"
    if {walk.input for walk in kernel.walks} != set(range(len(kernel.inputs))):
        return "its inputs are not those that it reads"
    if any(len(table.shape) != len(table.loops) for table in kernel.tables):
        return "a table has other axes than loops"
    return ""
