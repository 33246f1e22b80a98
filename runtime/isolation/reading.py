"""Reading values from shared memory that another process has written; nothing of it is believed."""

import struct
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ...stdlib.op import Array
from .values import (
    ALIGN,
    COUNTED,
    DEPTH,
    DTYPES,
    FLAG,
    LENGTH,
    NAMED,
    NODES,
    NUMBERS,
    RANK,
    REAL,
    RUNS,
    SHAPED,
    SMALL,
    TREE,
    Tag,
    padded,
)

_TEXT: Final = 1 << 30  # bytes of strings, with what Python needs for each
_EACH: Final = 64
_KNOWN: Final = 256  # trees that are remembered
_TREE: Final = 1 << 12  # bytes of such a tree
_NAMES: Final = 32  # different types of what can be no result


class Malformed(Exception):
    """Bytes are no values."""


Known = dict[bytes, "list[tuple[np.dtype[Any], tuple[int, ...], int, int]]"]  # Any: of any scalar
"""Trees that have been read, of small arrays of numbers alone: type, shape, where it begins and
where it ends of each."""


def read(
    content: "NDArray[np.uint8]",
    tree: int,
    size: int,
    *,
    borrow: bool,
    writable: bool,
    known: Known | None = None,
) -> list[object]:
    """Return the values of a message in memory; with `borrow` large arrays are a part of it.

    Raises Malformed for whatever another side may have written. `writable` is for the copies; what
    is no copy is as its memory is. `known` are trees of messages before.
    """
    if not 0 <= tree <= size <= len(content) or tree > TREE:
        raise Malformed(f"{tree} and {size} of {len(content)} bytes")
    if known is not None and tree <= _TREE:
        found = known.get(content[:tree].tobytes())
        if found is not None and found[-1][3] <= size:
            return [_copy(content, *one, writable) for one in found]
    try:
        reader = _Reader(content, tree, size, borrow, writable)
        values = reader.value(0)
        if known is not None and tree <= _TREE:
            reader.keep(known)
    except (struct.error, IndexError, ValueError, OverflowError, MemoryError) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from None
    if not isinstance(values, list):
        raise Malformed("no list of values")
    return cast("list[object]", values)


def _copy(
    content: "NDArray[np.uint8]",
    dtype: "np.dtype[Any]",  # Any: of any scalar
    shape: tuple[int, ...],
    start: int,
    stop: int,
    writable: bool,
) -> object:
    held = content[start:stop].tobytes()
    return np.frombuffer(bytearray(held) if writable else held, dtype).reshape(shape)


class _Reader:
    def __init__(
        self,
        content: "NDArray[np.uint8]",
        tree: int,
        size: int,
        borrow: bool,
        writable: bool,
    ) -> None:
        self._content, self._borrow, self._writable = content, borrow, writable
        self._tree, self._at = content[:tree].tobytes(), 0
        self._base = padded(tree)
        self._end, self._size = 0, size - self._base
        self._nodes, self._text = NODES, _TEXT
        self._kinds: dict[tuple[str, bool], type[_Other]] = {}
        self._arrays: list[tuple[np.dtype[Any], tuple[int, ...], int, int]] = []

    def keep(self, known: Known) -> None:
        """Remember a tree that is one list of small arrays."""
        arrays = self._arrays
        small = all(0 < stop - start <= SMALL for *_, start, stop in arrays)
        if arrays and small and len(arrays) + 1 == NODES - self._nodes:
            if len(known) == _KNOWN:
                known.clear()
            known[self._tree] = arrays

    def value(self, depth: int) -> object:
        self._nodes -= 1
        if depth > DEPTH or self._nodes < 0:
            raise Malformed("too deep, or too much")
        match self._tree[self._at]:
            case Tag.NONE:
                self._at += 1
                return None
            case Tag.ARRAY:
                return self._array()
            case Tag.SCALAR:
                return self._scalar()
            case Tag.STRING:
                return self._string(self._counted()).decode("utf-8", "surrogatepass")
            case Tag.BYTES:
                return self._string(self._counted())
            case Tag.LIST:
                return self._list(depth)
            case Tag.TUPLE:
                return tuple(self._list(depth))
            case Tag.OBJECTS:
                return self._objects(depth)
            case Tag.INTEGER:
                size = self._tree[self._at + 1]
                return int.from_bytes(self._inline(2, size), "little", signed=True)
            case Tag.FLOAT:
                return self._fields(REAL)[1]
            case Tag.BOOL:
                return self._fields(FLAG)[1]
            case Tag.OTHER:
                return self._other()
            case tag:
                raise Malformed(f"a node of kind {tag}")

    def _fields(self, layout: struct.Struct) -> tuple[Any, ...]:  # Any: as the layout says
        found = layout.unpack_from(self._tree, self._at)
        self._at += layout.size
        return found

    def _counted(self) -> int:
        return self._fields(COUNTED)[1]

    def _inline(self, before: int, size: int) -> bytes:
        start = self._at + before
        self._at = start + size
        if self._at > len(self._tree):
            raise Malformed("a node past the end of the tree")
        return self._tree[start : self._at]

    def _leaf(self, size: int, align: int) -> "NDArray[np.uint8]":
        start = padded(self._end, align)
        self._end = start + size
        if self._end > self._size:
            raise Malformed(f"{size} bytes at {start} of {self._size}")
        return self._content[self._base + start : self._base + self._end]

    def _shape(self) -> tuple[int, tuple[int, ...], int]:
        """Return the code of a dtype, a shape and how many elements that is."""
        _, code, rank = self._fields(SHAPED)
        if rank > RANK:
            raise Malformed(f"an array of rank {rank}")
        shape = struct.unpack(f"<{rank}Q", self._inline(0, 8 * rank))
        count = 1
        for size in shape:
            count *= size
        return code, shape, count

    def _array(self) -> Array:
        code, shape, count = self._shape()
        dtype = DTYPES[code]
        leaf = self._leaf(count * dtype.itemsize, ALIGN)
        stop = self._base + self._end
        self._arrays.append((dtype, shape, stop - len(leaf), stop))
        if self._borrow and len(leaf) > SMALL:
            return cast("Array", leaf.view(dtype).reshape(shape))
        copy = leaf.copy().view(dtype).reshape(shape)
        copy.flags.writeable = self._writable
        return cast("Array", copy)

    def _scalar(self) -> object:
        dtype = DTYPES[self._tree[self._at + 1]]
        return np.frombuffer(self._inline(2, dtype.itemsize), dtype)[0]

    def _string(self, size: int) -> bytes:
        leaf = self._leaf(size, 1)
        self._spend(size)
        return leaf.tobytes()

    def _spend(self, size: int) -> None:
        self._text -= size + _EACH
        if self._text < 0:
            raise Malformed(f"strings of more than {_TEXT} bytes")

    def _list(self, depth: int) -> list[object]:
        count = self._counted()
        if count > 1 and self._tree[self._at] == Tag.RUN:
            return self._run(count)
        return [self.value(depth + 1) for _ in range(count)]  # until the tree ends, at the latest

    def _run(self, count: int) -> list[object]:
        kind = RUNS[self._inline(1, 1)[0]]
        self._spend(count * _EACH)
        if kind in NUMBERS:
            dtype = NUMBERS[kind]
            numbers = self._leaf(count * dtype.itemsize, ALIGN).view(dtype)
            return cast("list[object]", numbers.tolist())
        table = self._leaf(count * LENGTH.itemsize, ALIGN).tobytes()
        lengths = cast("list[int]", np.frombuffer(table, LENGTH).tolist())
        joined = self._string(sum(lengths))
        texts: list[object] = []
        start = 0
        for length in lengths:
            text = joined[start : start + length]
            texts.append(text.decode("utf-8", "surrogatepass") if kind is str else text)
            start += length
        return texts

    def _objects(self, depth: int) -> Array:
        _, shape, count = self._shape()
        items = self.value(depth + 1)
        if not isinstance(items, list) or len(cast("list[object]", items)) != count:
            raise Malformed(f"objects of shape {list(shape)}")
        array = np.empty(count, object)
        for index, item in enumerate(cast("list[object]", items)):
            array[index] = item
        return cast("Array", array.reshape(shape))

    def _other(self) -> "_Other":
        _, size, sized, length = self._fields(NAMED)
        name = self._inline(0, size).decode("utf-8", "replace")
        if not name.isidentifier() or len(self._kinds) >= _NAMES:
            name = "object"
        kind = self._kinds.get((name, sized))
        if kind is None:
            base: type[_Other] = _Sized if sized else _Other
            kind = cast("type[_Other]", type(name, (base,), {}))  # a subclass, though unnamed
            self._kinds[name, sized] = kind
        return kind(length)


class _Other:
    """Stands for a value of a type that can be no result."""

    def __init__(self, length: int) -> None:
        self._length = length


class _Sized(_Other):
    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> object:
        return object()
