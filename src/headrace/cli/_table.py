"""Results as a person reads them, and as JSON.

Bytes that are UTF-8 are shown as text. In JSON others are `{"base64": "..."}`, and numbers that
JSON does not have are the texts "NaN", "Infinity" and "-Infinity".
"""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from ..dsl.cells import cells

Results: TypeAlias = Mapping[str, Any]  # Any: arrays, lists, text, bytes or None, as signatures say

_MOST_ROWS = 200
_MOST_VALUES = 12  # of an array in a cell
_GAP = "  "


def as_json(results: Results) -> str:
    """Return an object with one member a result."""
    plain = {name: _plain(value) for name, value in results.items()}
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Table:
    """Lines of text; `heading` is a first one that names the columns, "" for none."""

    heading: str
    lines: tuple[str, ...]


def as_table(results: Results) -> Table:
    """Return a row an item when all results have equally many items, else a line a result."""
    counts = {_count(value) for value in results.values()}
    if len(counts) == 1 and None not in counts:
        heading, *lines = _rows(results, cast("int", counts.pop()))
        return Table(heading, tuple(lines))
    width = max(map(len, results), default=0)
    lines = [f"{name:{width}}{_GAP}{_cell(value)}".rstrip() for name, value in results.items()]
    return Table("", tuple(lines))


def _rows(results: Results, count: int) -> list[str]:
    shown = min(count, _MOST_ROWS)
    columns = [
        [name, *(_cell(value[row]) for row in range(shown))] for name, value in results.items()
    ]
    widths = [max(map(cells, column)) for column in columns]
    lines = [
        _GAP.join(
            text + " " * (width - cells(text)) for text, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in zip(*columns, strict=True)
    ]
    if count == 0:
        lines.append("(nothing)")
    if count > shown:
        lines.append(f"... and {count - shown} more")
    return lines


def _count(value: object) -> int | None:
    """Return how many items a result has, None when it is one value."""
    if isinstance(value, np.ndarray):
        return cast("int", value.shape[0]) if value.ndim else None
    return len(cast("Sequence[object]", value)) if isinstance(value, list) else None


def _cell(value: object) -> str:
    if isinstance(value, list):
        items = cast("list[object]", value)
        more = ", ..." if len(items) > _MOST_VALUES else ""
        return f"[{', '.join(map(_cell, items[:_MOST_VALUES]))}{more}]"
    if isinstance(value, np.ndarray) and value.ndim:
        return _array(value)
    plain = _plain(value)
    match plain:
        case str():
            return "".join(char if char.isprintable() else repr(char)[1:-1] for char in plain)
        case bool() | None:
            return json.dumps(plain)
        case float():
            return f"{plain:.4g}"
        case dict():
            return f"{len(cast('bytes', value))} bytes"
        case _:
            return str(plain)


def _array(array: "np.ndarray[Any, Any]") -> str:  # Any: of any shape and dtype
    if array.dtype.hasobject or array.size <= _MOST_VALUES:
        return _cell(list(array))
    text = np.array2string(array, precision=4, threshold=_MOST_VALUES, edgeitems=2, separator=" ")
    return f"{array.dtype}{list(array.shape)} {' '.join(text.split())}"


def _plain(value: object) -> Any:  # Any: what JSON has
    match value:
        case np.ndarray():
            return _plain(value.tolist())
        case np.generic():
            return _plain(value.item())
        case list():
            return [_plain(item) for item in cast("list[object]", value)]
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value
