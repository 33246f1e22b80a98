"""Apps as they were read once, in a folder from which each of several processes loads them.

```
FOLDER/ocr/3/model.plan      a plan: the app ocr, version 3
FOLDER/ocr/3/model.said      what its pipelines are said to be beside
```
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from ..compiler.plan import Plan
    from ..runtime.protocols.models import Described
    from ..runtime.repository.keeper import Apps
    from ..runtime.repository.version import Candidate
    from ..stdlib.op import Array, Item

_PLAN: Final = "model.plan"
_SAID: Final = "model.said"


@dataclass(frozen=True, slots=True)
class _Said:
    """A `Described`, in a form that has a form as bytes; arrays of warm-ups are literals, with
    their long contents apart."""

    config: dict[str, Any]  # Any: JSON
    labels: dict[str, tuple[str, ...]]
    models: dict[str, tuple[str, str]]
    nested: dict[tuple[str, str], int]
    warmups: list[dict[str, Any]]  # Any: JSON
    contents: dict[str, bytes]


def keep(
    folder: Path, app: str, number: int, plan: "Plan", described: "Mapping[str, Described]"
) -> None:
    """Write a version of an app; raises OSError."""
    import msgspec

    from ..compiler.plan_file import write

    place = folder / app / str(number)
    place.mkdir(parents=True)
    write(plan, place / _PLAN)
    said = {name: _said(one) for name, one in described.items()}
    (place / _SAID).write_bytes(msgspec.msgpack.encode(said))


def kept(folder: Path) -> "Apps":
    """Return what was kept."""
    return {
        app.name: {int(version.name): _candidate(version) for version in app.iterdir()}
        for app in folder.iterdir()
    }


def _candidate(place: Path) -> "Candidate":
    from ..compiler.plan_file import read
    from ..runtime.repository.version import Candidate

    return Candidate(partial(read, place / _PLAN), describe=partial(_described, place / _SAID))


def _said(one: "Described") -> _Said:
    from ..compiler.literal_codec import Attachments, encode_literal

    long = Attachments()
    warmups = [
        # a warm-up has tensors alone, which are literals
        {name: encode_literal(cast("Array", value), long) for name, value in inputs.items()}
        for inputs in one.warmups
    ]
    labels = {name: tuple(classes) for name, classes in one.labels.items()}
    return _Said(
        dict(one.config), labels, dict(one.models), dict(one.nested), warmups, long.contents
    )


def _described(path: Path) -> "Mapping[str, Described]":
    import msgspec

    from ..runtime.protocols.models import Described

    found = msgspec.msgpack.decode(path.read_bytes(), type=dict[str, _Said])
    return {
        name: Described(one.config, one.labels, tuple(_warmups(one)), one.models, one.nested)
        for name, one in found.items()
    }


def _warmups(said: _Said) -> "Iterator[Mapping[str, Item]]":
    from ..compiler.literal_codec import Attachments, decode_literal

    long = Attachments(said.contents)
    for inputs in said.warmups:
        yield {name: cast("Array", decode_literal(one, long)) for name, one in inputs.items()}
