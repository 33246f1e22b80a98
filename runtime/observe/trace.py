"""What a caller gets of a request that was recorded: its times, and every value by its name.

    page, trace = app.ocr(photo=jpeg, trace=True)
    print(trace)
    trace["crop"][3]          # of the fourth item of a `for`
    trace.save("ocr.json")    # for ui.perfetto.dev

Of a stream it is complete when the stream is.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from ...compiler.plan import Place
from ...stdlib.op import Item
from ..request import Fault
from ..rows import Value
from .recording import Fell, Recording, Span
from .sums import Sums, sum_up

Path: TypeAlias = tuple[int, ...]


class Items(Mapping[Path, Value]):
    """The values of one name by index path, the outermost `for`, `loop` or batch row first; of
    paths of one index the bare index will do."""

    def __init__(self, found: Mapping[Path, Value]) -> None:
        self._found = found

    def __getitem__(self, path: Path | int) -> Value:
        return self._found[(path,) if isinstance(path, int) else path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, list(self)[:4]))
        return f"<{len(self)} values at {shown}{', ...' if len(self) > 4 else ''}>"


@dataclass(frozen=True, slots=True)
class Seen:
    """A value as one step made it, for each row that came there."""

    name: str
    place: Place
    items: Items


class Trace:
    """One request, from when it came to its outcome."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @property
    def pipeline(self) -> str:
        return self._recording.pipeline.name

    @property
    def request_id(self) -> str:
        return self._recording.request_id

    @property
    def recording(self) -> Recording:
        """What was written down, to be read only."""
        return self._recording

    @property
    def fault(self) -> Fault | None:
        """Why it failed, if it did."""
        return self._recording.fault

    @property
    def spans(self) -> tuple[Span, ...]:
        """The calls of stages in the order in which they were asked for."""
        return tuple(self._recording.spans)

    @property
    def fallbacks(self) -> tuple[Fell, ...]:
        """The rows of `try` that went to their `else`."""
        return tuple(self._recording.fell)

    @property
    def sums(self) -> Sums:
        """What the times add up to."""
        return sum_up(self._recording)

    @property
    def values(self) -> tuple[Seen, ...]:
        """Every value in the order in which they were made."""
        return tuple(
            Seen(
                kept.name,
                kept.place,
                Items(
                    {kept.group.path(row): kept.column.item(row) for row in range(kept.group.count)}
                ),
            )
            for kept in self._recording.kept
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values, each once."""
        return tuple(dict.fromkeys(kept.name for kept in self._recording.kept))

    def __getitem__(self, name: str) -> "Item | Items":
        """Return the value of that name; where there are several, by index path, all of them.

        Where a name is given twice at one path the later value counts; `values` has all.
        Raises KeyError, which says where a value is that no request makes.
        """
        found: dict[Path, Value] = {}
        for kept in self._recording.kept:
            if kept.name == name:
                for row in range(kept.group.count):
                    found[kept.group.path(row)] = kept.column.item(row)
        if not found:
            raise KeyError(self._missing(name))
        return found[()] if found.keys() == {()} else Items(found)  # type: ignore[return-value] copied to the host

    def __contains__(self, name: object) -> bool:
        return any(kept.name == name for kept in self._recording.kept)

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write a file that ui.perfetto.dev and chrome://tracing open."""
        from .perfetto import save

        save(path, [self._recording])

    def __str__(self) -> str:
        from .table import show

        return show(self._recording)

    def __repr__(self) -> str:
        return f"<trace of `{self.pipeline}`: {len(self.spans)} calls of stages>"

    def _missing(self, name: str) -> str:
        if not self._recording.values:
            return "values were not recorded"
        for one in self._recording.pipeline.unseen:
            if one.name == name:
                where = f"is inside of the fused graph `{one.inside}`"
                gone = where if one.inside else f"need not be made, as `{one.by}` has found"
                return f"`{name}` ({one.place}) {gone}; compile with --no-fuse to see it"
        if name in _named(self._recording):
            return f"`{name}` was not made for this request"
        near = get_close_matches(name, self.names, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        return f"there is no value `{name}`{hint}"


def _named(recording: Recording) -> set[str]:
    from ...compiler.plan_walk import blocks_of, steps_of

    body = recording.pipeline.body
    blocks = [body, *(inner for step in steps_of(body) for inner in blocks_of(step))]
    return {name for block in blocks for name in block.names}
