"""What the JSON before binary tensors says, kept for the next request that says the same.

Clients describe their tensors in the same words again and again, with other values behind them. Of
JSON that describes plain tensors of a few bytes, and wants nothing else but binary outputs or none
that are, all is known but the values: it is read once for each model. What has more to say is read
each time: an id, parameters, memory, classes.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from ...stdlib.op import Item
from .forms import Form, Shape
from .raw import LARGE

LONGEST: Final = 1 << 10
"""Bytes of JSON that is kept."""
_MOST: Final = 64
"""Texts that are kept of each kind, for each model."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Place(NamedTuple):
    """Where a tensor stands in a body."""

    name: str
    dtype: "np.dtype[Any]"  # Any: of any scalar
    shape: Shape
    start: int
    stop: int


class Layout(NamedTuple):
    """A request whose tensors stand in a body of `size` bytes. `outputs` are those wanted, None
    where that is all; they are to be sent as `binary` or not."""

    places: tuple[_Place, ...]
    size: int
    outputs: tuple[str, ...] | None
    binary: bool

    def read(self, body: bytes) -> dict[str, Item]:
        """Return the inputs in a body."""
        items: dict[str, Item] = {}
        for name, dtype, shape, start, stop in self.places:
            items[name] = np.frombuffer(body[start:stop], dtype).reshape(shape)
        return items


def layout(
    start: int,
    tensors: Sequence[tuple[Form, Shape, int]],
    outputs: tuple[str, ...] | None,
    *,
    binary: bool,
) -> Layout | None:
    """Return how tensors of these sizes stand behind JSON of `start` bytes; None where one is not
    plain, or so large that it is not to be copied."""
    places: list[_Place] = []
    for form, shape, size in tensors:
        if not form.plain or size >= LARGE:
            return None
        stop = start + size
        places.append(_Place(form.name, form.datatype.numpy, shape, start, stop))
        start = stop
    return Layout(tuple(places), start, outputs, binary)


def keep(known: dict[Key, Value], key: Key, value: Value) -> None:
    """Keep a value for a key in place of the one that was kept first, where there are many."""
    if len(known) >= _MOST:
        known.pop(next(iter(known)), None)
    known[key] = value
