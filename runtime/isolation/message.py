"""Making values ready to be written to shared memory, in the form of `values`."""

from collections.abc import Sequence
from struct import pack
from typing import Any, Final, cast

import numpy as np

from ...stdlib.op import Array
from .memory import LIMIT
from .values import (
    ALIGN,
    COUNTED,
    DEPTH,
    DTYPES,
    FLAG,
    LENGTH,
    NAME,
    NAMED,
    NODES,
    NUMBERS,
    REAL,
    RUNS,
    SHAPED,
    TREE,
    Tag,
    padded,
)

_CODES: Final = {dtype: code for code, dtype in enumerate(DTYPES)}


_FORMS: Final = 256
_TINY: Final = 1 << 12

Kinds = tuple[tuple["np.dtype[Any]", tuple[int, ...]], ...]  # Any: of any scalar
Forms = dict[Kinds, tuple[bytearray, list[int], int, int]]
"""Of values that are all arrays of numbers, by their types and shapes: the tree, where leaves begin
behind it, where it ends, and how many bytes there are in all."""


class Unsendable(Exception):
    """A value is more than one message holds."""


class Message:
    """Values made ready to be written: `tree` bytes of a tree, `size` bytes in all."""

    def __init__(self, values: Sequence[object], forms: "Forms | None" = None) -> None:
        """Raises Unsendable. `forms` are those of messages before."""
        self._nodes = bytearray()
        self._leaves: list[tuple[int, Array | bytes]] = []
        self._end = self._count = 0
        kinds = None if forms is None else _kinds(values)
        form = None if forms is None or kinds is None else forms.get(kinds)
        if form is not None:
            self._nodes, starts, self._base, self.size = form
            self.tree = len(self._nodes)
            self._leaves = list(zip(starts, cast("Sequence[Array]", values), strict=True))
            return
        self._list(Tag.LIST, values, 0)
        self.tree = len(self._nodes)
        if self.tree > TREE:
            raise Unsendable(f"{self._count} values are too many for one run; give an array")
        self._base = padded(self.tree)
        self.size = self._base + self._end
        if self.size > LIMIT:
            raise Unsendable(f"{self.size} bytes are more than one run may pass, {LIMIT}")
        if forms is not None and kinds is not None and len(self._leaves) == len(values):
            if len(forms) == _FORMS:
                forms.clear()
            forms[kinds] = self._nodes, [start for start, _ in self._leaves], self._base, self.size

    def write(self, view: memoryview) -> None:
        """Write to memory of at least `size` bytes."""
        view[: self.tree] = self._nodes
        for start, leaf in self._leaves:
            at = self._base + start
            if isinstance(leaf, bytes) or leaf.nbytes <= _TINY:
                content = leaf if isinstance(leaf, bytes) else leaf.tobytes()
                view[at : at + len(content)] = content
                continue
            place = np.frombuffer(view, leaf.dtype, leaf.size, at)
            np.copyto(place.reshape(leaf.shape), leaf)

    def _add(self, value: object, depth: int) -> None:
        self._count += 1
        if depth > DEPTH or self._count > NODES:
            raise Unsendable("a value is nested too deep, or of too many parts, for one run")
        if isinstance(value, np.ndarray):
            self._array(cast("Array", value), depth)
        elif value is None:
            self._nodes.append(Tag.NONE)
        elif isinstance(value, str):
            self._text(Tag.STRING, value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, bytes | bytearray | memoryview):
            self._text(Tag.BYTES, bytes(value))
        elif isinstance(value, np.generic):
            self._scalar(value)
        elif isinstance(value, bool):
            self._nodes += FLAG.pack(Tag.BOOL, value)
        elif isinstance(value, int):
            self._integer(int(value))
        elif isinstance(value, float):
            self._nodes += REAL.pack(Tag.FLOAT, value)
        elif isinstance(value, list):
            self._list(Tag.LIST, cast("list[object]", value), depth)
        elif isinstance(value, tuple):
            self._list(Tag.TUPLE, cast("tuple[object, ...]", value), depth)
        else:
            self._other(value)

    def _array(self, array: Array, depth: int) -> None:
        if array.dtype.kind in "OUST":
            self._shape(Tag.OBJECTS, 0, array.shape)
            self._add(array.astype(object).reshape(-1).tolist(), depth + 1)
            return
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        code = _CODES.get(array.dtype)
        if code is None:
            self._other(array)
            return
        self._shape(Tag.ARRAY, code, array.shape)
        self._leaf(np.asarray(array), array.nbytes, ALIGN)

    def _shape(self, tag: int, code: int, shape: tuple[int, ...]) -> None:
        self._nodes += SHAPED.pack(tag, code, len(shape))
        self._nodes += pack(f"<{len(shape)}Q", *shape)

    def _scalar(self, value: "np.generic") -> None:
        code = _CODES.get(value.dtype)
        if code is None:
            self._other(value)
            return
        self._nodes += bytes((Tag.SCALAR, code))
        self._nodes += value.tobytes()

    def _integer(self, value: int) -> None:
        content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        if len(content) > 255:
            self._other(value)
            return
        self._nodes += bytes((Tag.INTEGER, len(content)))
        self._nodes += content

    def _text(self, tag: int, content: bytes) -> None:
        self._nodes += COUNTED.pack(tag, len(content))
        self._leaf(content, len(content), 1)

    def _list(self, tag: int, values: Sequence[object], depth: int) -> None:
        self._nodes += COUNTED.pack(tag, len(values))
        kind = type(values[0]) if len(values) > 1 else None
        if kind in RUNS and set(map(type, values)) == {kind} and self._run(kind, values):
            return
        for value in values:
            self._add(value, depth + 1)

    def _run(self, kind: type, values: Sequence[object]) -> bool:
        """Write values of one Python type together; False when they do not fit their form."""
        if kind in NUMBERS:
            try:
                content = np.array(values, NUMBERS[kind])
            except OverflowError:
                return False
            self._nodes += bytes((Tag.RUN, RUNS.index(kind)))
            self._leaf(content, content.nbytes, ALIGN)
            return True
        texts = cast("Sequence[bytes]", values)
        if kind is str:
            strings = cast("Sequence[str]", values)
            texts = [one.encode("utf-8", "surrogatepass") for one in strings]
        lengths = np.array([len(one) for one in texts], LENGTH)
        self._nodes += bytes((Tag.RUN, RUNS.index(kind)))
        self._leaf(lengths, lengths.nbytes, ALIGN)
        joined = b"".join(texts)
        self._leaf(joined, len(joined), 1)
        return True

    def _other(self, value: object) -> None:
        name = type(value).__name__[:NAME].encode("utf-8", "replace")[:255]
        try:
            length = len(cast("list[object]", value)) if hasattr(value, "__len__") else None
        except Exception:  # a length that cannot be told is none
            length = None
        self._nodes += NAMED.pack(Tag.OTHER, len(name), length is not None, length or 0)
        self._nodes += name

    def _leaf(self, leaf: "Array | bytes", size: int, align: int) -> None:
        start = padded(self._end, align)
        self._leaves.append((start, leaf))
        self._end = start + size


def _kinds(values: Sequence[object]) -> Kinds | None:
    """Return the types and shapes of arrays of numbers; None where there is something else."""
    kinds: list[tuple[np.dtype[Any], tuple[int, ...]]] = []  # Any: of any scalar
    for value in values:
        if value.__class__ is not np.ndarray:
            return None
        array = cast("Array", value)
        if array.dtype not in _CODES:
            return None
        kinds.append((array.dtype, array.shape))
    return tuple(kinds)
