"""Requests and answers of a batch, in the form in which they go: rows of many lie in one tensor.

    groups:  how many | each group
    group:   layout, members, length of a description | description | rows of each | sizes

What the tensors of a group have in common, their names, types and sizes, is a layout. It is
described once, in JSON, and told by a number afterwards; sizes are the bytes of each tensor. The
bytes themselves are a message's `chunks`. Nothing that comes is believed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .link import DTYPES, Malformed, content_of, deserialized, padded

_MOST = 1024  # layouts that are remembered
_HEAD = struct.Struct("<III")
_COUNT = struct.Struct("<I")
_RANK = 64


class Layout(NamedTuple):
    """`tensors` are names, types and sizes. With `rows` the sizes are those of one row, and each
    member has some; else a group has one member, whose tensors are of these sizes."""

    tensors: tuple[tuple[str, str, tuple[int, ...]], ...]
    rows: bool


class Group(NamedTuple):
    """Members that follow each other, with so many rows each, and their tensors in one array for
    each of the layout."""

    layout: Layout
    counts: tuple[int, ...]
    arrays: list[Any]

    def members(self) -> Iterator[list[tuple[str, str, Any]]]:
        """Return names, types and arrays of each member."""
        named = [(name, datatype) for name, datatype, _ in self.layout.tensors]
        if not self.layout.rows:
            yield [(*told, array) for told, array in zip(named, self.arrays)]  # noqa: B905 as many
            return
        start = 0
        for count in self.counts:
            stop = start + count
            yield [
                (*told, array[start:stop])
                for told, array in zip(named, self.arrays)  # noqa: B905 as many
            ]
            start = stop


class Writing:
    """Writes groups, and remembers which layouts the other side knows."""

    def __init__(self) -> None:
        self._numbers: dict[Layout, int] = {}

    def pack(self, groups: list[Group], chunks: list[Any]) -> bytes:
        """Return what a message says of groups; their bytes join `chunks`. Where the message is not
        sent, `forget` is to be called."""
        parts = [_COUNT.pack(len(groups))]
        for layout, counts, arrays in groups:
            number, told = self._numbers.get(layout), b""
            if number is None:
                if len(self._numbers) == _MOST:
                    self._numbers.clear()
                number = self._numbers[layout] = len(self._numbers)
                told = json.dumps([layout.rows, layout.tensors]).encode()
            contents = [
                content_of(datatype, array)
                for (_, datatype, _), array in zip(layout.tensors, arrays)  # noqa: B905 as many
            ]
            chunks += contents
            parts += (
                _HEAD.pack(number, len(counts), len(told)),
                told,
                struct.pack(f"<{len(counts)}I{len(contents)}Q", *counts, *map(len, contents)),
            )
        return b"".join(parts)

    def forget(self) -> None:
        """Describe all layouts anew."""
        self._numbers.clear()


class _Known:
    """A layout as its reader has it: for each tensor its NumPy type (None: texts), its sizes, and
    the bytes of a row."""

    __slots__ = ("layout", "tensors")

    def __init__(self, told: Any) -> None:
        rows, tensors = told
        found = []
        self.tensors: list[tuple[Any, tuple[int, ...], int]] = []
        for name, datatype, sizes in tensors:
            count = 1
            for size in sizes:
                if type(size) is not int or size < 0:
                    raise Malformed(f"{sizes} are no sizes")
                count *= size
            dtype = None if datatype == "BYTES" else DTYPES[datatype]
            if type(name) is not str or len(sizes) >= _RANK:
                raise Malformed(f"{name!r} with sizes {sizes} is no tensor")
            width = count if dtype is None else count * dtype.itemsize
            self.tensors.append((dtype, tuple(sizes), width))
            found.append((name, datatype, tuple(sizes)))
        self.layout = Layout(tuple(found), bool(rows))


class Reading:
    """Reads groups, and remembers the layouts that have been described."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def unpack(self, told: Any, at: int, content: Any) -> list[Group]:
        """Return the groups that a message tells of from `at` on; raises Malformed."""
        try:
            return self._groups(told, at, content)
        except (struct.error, TypeError, ValueError, KeyError, OverflowError) as error:
            raise Malformed(f"what is said of tensors is wrong: {error}") from None

    def _groups(self, told: Any, at: int, content: Any) -> list[Group]:
        (count,) = _COUNT.unpack_from(told, at)
        at += _COUNT.size
        found, start = [], 0
        for _ in range(count):
            number, members, length = _HEAD.unpack_from(told, at)
            at += _HEAD.size
            if length:
                if number > len(self._known) or number >= _MOST:
                    raise Malformed(f"layout {number} follows none")
                self._known[number] = _Known(json.loads(bytes(told[at : at + length])))
                at += length
            known = self._known[number]
            form = struct.Struct(f"<{members}I{len(known.tensors)}Q")
            numbers = form.unpack_from(told, at)
            at += form.size
            counts, sizes = numbers[:members], numbers[members:]
            rows = sum(counts) if known.layout.rows else None
            if rows is None and members != 1:
                raise Malformed(f"{members} members of a layout without rows")
            arrays = []
            for (dtype, shape, width), size in zip(known.tensors, sizes):  # noqa: B905 as many
                if size > len(content) - start:
                    raise Malformed(f"{size} bytes of a tensor are not there")
                arrays.append(_array(content, start, size, dtype, width, rows, shape))
                start += padded(size)
            found.append(Group(known.layout, counts, arrays))
        return found


def _array(
    content: Any, at: int, size: int, dtype: Any, width: int, rows: Any, sizes: tuple[int, ...]
) -> Any:
    """Return a tensor: of so many `rows` of these sizes, or of these sizes alone (rows None)."""
    shape = sizes if rows is None else (rows, *sizes)
    whole = width if rows is None else width * rows
    if dtype is None:
        texts = deserialized(memoryview(content)[at : at + size])
        if len(texts) != whole:
            raise Malformed(f"{len(texts)} texts for {list(shape)}")
        return texts.reshape(shape)
    if whole != size:
        raise Malformed(f"{size} bytes for {dtype} {list(shape)}")
    if not size:
        return np.empty(shape, dtype)
    return np.frombuffer(content, dtype, size // dtype.itemsize, at).reshape(shape)


_EXECUTE = struct.Struct("<QII")


def execution(first: int, told: list[Any], groups: bytes) -> bytes:
    """Return the header of requests to execute, whose numbers follow `first`: what is told of each
    beside its tensors, None where that is nothing."""
    more = json.dumps(told).encode() if any(told) else b""
    return _EXECUTE.pack(first, len(told), len(more)) + more + groups


def executed(first: int, more: dict[str, Any] | None, groups: bytes) -> bytes:
    """Return the header of what was answered to them: `more` where that is not a response of
    outputs alone to each."""
    text = b"" if more is None else json.dumps(more).encode()
    return _EXECUTE.pack(first, 0, len(text)) + text + groups


def read_header(header: bytes) -> tuple[int, int, Any, int]:
    """Return the first number, how many requests there are, what else is told and where the groups
    begin; raises Malformed."""
    try:
        first, count, length = _EXECUTE.unpack_from(header)
        start = _EXECUTE.size
        more = json.loads(header[start : start + length]) if length else None
    except (struct.error, ValueError) as error:
        raise Malformed(f"a header of a batch is wrong: {error}") from None
    return first, count, more, start + length
