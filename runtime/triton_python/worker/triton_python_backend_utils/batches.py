"""Requests and answers of a batch, in the form in which they go: rows of many lie in one tensor.

    groups:  how many | each group
    group:   layout, members, length of a description | description | rows of each | sizes

What the tensors of a group have in common, their names, types and sizes, is a layout. It is
described once, in JSON, and told by a number afterwards; sizes are the bytes of each tensor. The
bytes themselves are a message's `chunks`. Nothing that comes is believed; what has been found right
once is remembered by its bytes, as most messages say the same of their tensors.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from .contents import DTYPES, RANK, Malformed, Place, array_in, content_of, padded

_MOST = 1024  # layouts, and forms of messages, that are remembered
_LONG = 1024  # bytes of what is said of groups, from which on it is not remembered
_HEAD = struct.Struct("<III")
_COUNT = struct.Struct("<I")


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
            numbers = f"{len(counts)}I{len(contents)}Q"
            head, sizes = (number, len(counts), len(told)), map(len, contents)
            if told:
                parts += (_HEAD.pack(*head), told, struct.pack("<" + numbers, *counts, *sizes))
            else:
                parts.append(struct.pack("<III" + numbers, *head, *counts, *sizes))
        return b"".join(parts)

    def forget(self) -> None:
        """Describe all layouts anew."""
        self._numbers.clear()


class _Known:
    """A layout as its reader has it: for each tensor its NumPy type (None: texts), its sizes, and
    the elements of a row."""

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
            if type(name) is not str or len(sizes) >= RANK:
                raise Malformed(f"{name!r} with sizes {sizes} is no tensor")
            self.tensors.append((dtype, tuple(sizes), count))
            found.append((name, datatype, tuple(sizes)))
        self.layout = Layout(tuple(found), bool(rows))


class _Form(NamedTuple):
    """What a message says of its groups, and where the last of its tensors ends."""

    groups: list[tuple[Layout, tuple[int, ...], list[Place]]]
    end: int


class Reading:
    """Reads groups, and remembers the layouts that have been described, and where the tensors of
    messages lie that told of no new one."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._forms: dict[bytes, _Form] = {}

    def unpack(self, told: bytes, at: int, content: Any) -> list[Group]:
        """Return the groups that a message tells of from `at` on; raises Malformed."""
        said = told[at:]
        try:
            form = self._forms.get(said) or self._read(said)
            if form.end > len(content):
                raise Malformed(f"{form.end - len(content)} bytes of tensors are not there")
            return [
                Group(layout, counts, [array_in(content, *place) for place in places])
                for layout, counts, places in form.groups
            ]
        except (struct.error, TypeError, ValueError, KeyError, OverflowError) as error:
            raise Malformed(f"what is said of tensors is wrong: {error}") from None

    def _read(self, told: bytes) -> _Form:
        (count,) = _COUNT.unpack_from(told)
        at, end, described = _COUNT.size, 0, False
        groups: list[tuple[Layout, tuple[int, ...], list[Place]]] = []
        for _ in range(count):
            number, members, length = _HEAD.unpack_from(told, at)
            at += _HEAD.size
            if length:
                if number > len(self._known) or number >= _MOST:
                    raise Malformed(f"layout {number} follows none")
                self._known[number] = _Known(json.loads(told[at : at + length]))
                self._forms.clear()  # it may have been another layout's number
                at, described = at + length, True
            known = self._known[number]
            numbers = struct.Struct(f"<{members}I{len(known.tensors)}Q")
            found = numbers.unpack_from(told, at)
            at += numbers.size
            counts = found[:members]
            rows = sum(counts) if known.layout.rows else None
            if rows is None and members != 1:
                raise Malformed(f"{members} members of a layout without rows")
            places = [*_places(known, rows, found[members:], end)]
            if places:
                end = places[-1].start + places[-1].size
            groups.append((known.layout, counts, places))
        form = _Form(groups, end)
        if not described and len(told) < _LONG:
            if len(self._forms) == _MOST:
                self._forms.clear()
            self._forms[told] = form
        return form


def _places(known: _Known, rows: int | None, sizes: Any, end: int) -> Iterator[Place]:
    """Return where the tensors of a group lie, behind what ends there: each of so many `rows`, or
    of its sizes alone (None)."""
    for (dtype, shape, count), size in zip(known.tensors, sizes):  # noqa: B905 as many
        start = padded(end)
        if rows is not None:
            shape, count = (rows, *shape), count * rows
        if dtype is not None and count * dtype.itemsize != size:
            raise Malformed(f"{size} bytes for {dtype} {list(shape)}")
        yield Place(start, size, dtype, shape, count)
        end = start + size


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
