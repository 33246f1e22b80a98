"""What an embedded call returns: results by name and in order, readable when printed."""

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..stdlib.dtypes import from_numpy
from ..stdlib.op import Array, Item

_WIDTH = 60


class Record(tuple[Any, ...]):  # Any: results are arrays, text or lists as the signature says
    """A tuple whose values also go by the names of a signature's results."""

    __slots__ = ()
    _pipeline = ""
    _fields: tuple[str, ...] = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # Any: the names are a signature's results

    def _asdict(self) -> dict[str, Any]:  # Any: as above
        """Return the results by name."""
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        if not self._fields:
            return f"{self._pipeline}()"
        wide = max(map(len, self._fields))
        lines = [
            f"    {name:{wide}} = {_shown(value)}"
            for name, value in zip(self._fields, self, strict=True)
        ]
        return "\n".join([f"{self._pipeline}(", *lines, ")"])

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt, (self._pipeline, self._fields, tuple(self)))


def record_type(pipeline: str, names: Sequence[str]) -> type[Record]:
    """Return the type of a pipeline's results."""
    members: dict[str, object] = {name: property(itemgetter(i)) for i, name in enumerate(names)}
    members |= {"__slots__": (), "_pipeline": pipeline, "_fields": tuple(names)}
    return cast("type[Record]", type("Record", (Record,), members))  # made of it


def _rebuilt(pipeline: str, names: tuple[str, ...], values: tuple[Item, ...]) -> Record:
    return record_type(pipeline, names)(values)


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return f"{_kind(array)} {_short(_values(array))}".rstrip()
    if isinstance(value, np.generic):
        return f"{value.item()!r} ({_kind(np.asarray(value))})"
    if isinstance(value, bytes):
        return f"{len(value)} bytes {_short(repr(value))}"
    if isinstance(value, list):
        items = cast("list[object]", value)
        return f"list of {len(items)} {_short(', '.join(_shown(item) for item in items[:4]))}"
    return _short(repr(value))


def _kind(array: Array) -> str:
    found = from_numpy(array.dtype)
    first = array.reshape(-1)[0] if array.size and array.dtype.hasobject else ""
    name = found.value if found else ("bytes" if isinstance(first, bytes) else "string")
    return f"{name}[{', '.join(map(str, array.shape))}]" if array.ndim else name


def _values(array: Array) -> str:
    flat: list[object] = array.reshape(-1)[:8].tolist()
    shown = " ".join(f"{one:.6g}" if isinstance(one, float) else repr(one) for one in flat)
    return shown + (" ..." if array.size > len(flat) else "")


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 4] + " ..."
