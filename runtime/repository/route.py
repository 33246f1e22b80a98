"""Where requests to one name go: frozen tables, made anew at every change and read without a lock.

A request names a version or not. One that goes on with a sequence goes where that sequence lives,
be it a version that is draining: what is kept of a sequence was made by that version's models and
means nothing to another's. Everything else goes to the version asked for; without one, to that in
whose part its key falls.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from ..engine import Engine
from ..prepared import Prepared
from ..protocols.models import Model
from ..request import InSequence, Request
from .shadow import Shadow
from .shares import ROUTE, dealt, position


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A pipeline in one version, ready to run."""

    model: Model
    engine: Engine
    prepared: Prepared

    def keeps(self, sequence: InSequence) -> bool:
        """Whether that sequence lives here."""
        kept = self.prepared.sequences
        return kept is not None and kept.knows(sequence.id)

    def forget(self, sequence: InSequence) -> None:
        """Let go of a sequence that has begun anew elsewhere."""
        if self.prepared.sequences is not None:
            self.prepared.sequences.end(sequence.id)


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """`versions` by what the wire calls them; `main` answers what no part of `parts` (up to which
    position, who) does. `finishing` are draining, and keep sequences that still live. It is
    `simple` where there is nothing to decide but by the version asked for."""

    versions: Mapping[str, Served]
    main: Served | None
    parts: tuple[tuple[float, Served], ...] = ()
    finishing: tuple[Served, ...] = ()
    shadows: tuple[Shadow, ...] = ()
    turns: "count[int]" = field(default_factory=count)
    simple: bool = field(init=False)

    def __post_init__(self) -> None:
        simple = not self.parts and not self.finishing and len(self.versions) == 1
        object.__setattr__(self, "simple", simple)

    def known(self, version: str) -> Served | None:
        """Return who knows how requests to a version look; for some that is all that is left."""
        live = self.versions.get(version) if version else self.main
        if live is not None:
            return live
        return next((one for one in self.finishing if version in ("", one.model.version)), None)

    def pick(self, version: str, request: Request) -> Served | None:
        """Return who is to answer; None when nobody serves it."""
        if self.simple:
            return self.main if not version else self.versions.get(version)
        sequence = request.sequence
        if sequence is not None and not sequence.start:
            for one in (*self.finishing, *self.versions.values()):
                if version in ("", one.model.version) and one.keeps(sequence):
                    return one
        if version:
            return self.versions.get(version)
        return self._by_part(request)

    def others(self, chosen: Served) -> Iterable[Served]:
        """Return all that a sequence may live on but the one chosen."""
        return (one for one in (*self.finishing, *self.versions.values()) if one is not chosen)

    def _by_part(self, request: Request) -> Served | None:
        if not self.parts:
            return self.main
        sequence = request.sequence
        key = request.id if sequence is None else sequence.id
        where = dealt(next(self.turns)) if key == "" else position(key, ROUTE)
        return next((one for upto, one in self.parts if where < upto), self.main)
