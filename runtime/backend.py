"""What a backend is: the kind of segment that it opens, and how. One a file in `backends/`.

A backend makes a stage of a segment. What several segments may use together (a session, the
module of a source) it asks `Loading` for by a key, and whatever it opens is handed to `Loading`
to be closed, so that no backend keeps anything between plans.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from ..compiler.plan import Segment
from .devices import open_device
from .devices.device import Device
from .shared import Closable, Shared
from .stage import Stage


class Outside(Closable, Protocol):
    """What serves a stage from another process, and may be down. It may be closed twice."""

    @property
    def is_up(self) -> bool: ...


Opened = TypeVar("Opened", bound=Closable)
Outer = TypeVar("Outer", bound=Outside)


class Loading:
    """What a plan's backends have at hand; `close` closes what they opened, the last first."""

    def __init__(
        self,
        blobs: Mapping[str, bytes],
        *,
        tensorrt: bool,
        store: Shared | None = None,
        devices: Sequence[Device] = (),
    ) -> None:
        """`tensorrt` gives what runs on a GPU to TensorRT. `store` is what plans have in common;
        `devices` are open already, and stay so."""
        self._store = store
        self.blobs, self.tensorrt = blobs, tensorrt
        self._closing = ExitStack()
        self._devices: dict[str, Device] = {one.name: one for one in devices}
        self._shared: dict[Hashable, Closable] = {}
        self._outside: list[tuple[Outside, str]] = []

    def device(self, name: str) -> Device:
        """Return a device, opened at first use; raises LoadError where there is no such."""
        if name not in self._devices:
            self._devices[name] = self.own(open_device(name))
        return self._devices[name]

    def shared(
        self, key: Hashable, make: Callable[[], Opened], *, by_plans: bool = False
    ) -> Opened:
        """Return what was made for `key`, which is made at first use and closed with the plan, or
        where it may be shared `by_plans`, with the last that uses it.

        The key says all that what is made depends on.
        """
        if key not in self._shared:
            if by_plans and self._store is not None:
                self._shared[key] = self._store.take(key, make)
                self._closing.callback(self._store.give_back, key)
            else:
                self._shared[key] = self.own(make())
        return cast("Opened", self._shared[key])  # one kind of key, one kind of thing

    def own(self, opened: Opened) -> Opened:
        """Take over what only one segment uses, to close it with the plan."""
        self._closing.callback(opened.close)
        return opened

    def outside(self, opened: Outer, stage: str) -> Outer:
        """Take over what serves a stage from outside of this process."""
        self._outside.append((opened, stage))
        return self.own(opened)

    def down(self) -> tuple[str, ...]:
        """Return the stages that nothing serves for now."""
        return tuple(stage for opened, stage in self._outside if not opened.is_up)

    def stop(self) -> None:
        """Close what serves from outside, whatever it is at."""
        for opened, _ in self._outside:
            opened.close()

    def close(self) -> None:
        self._shared.clear()
        self._devices.clear()
        self._closing.close()


@dataclass(frozen=True, slots=True)
class Backend:
    """What a file of `backends/` defines as `BACKEND`.

    `open` is given a segment of that kind, its number in the plan and its share of the cores (None:
    the segment is no model); it raises LoadError where this machine cannot run it.
    """

    segment: type[Segment]
    open: Callable[[Any, int, Any, Loading], Stage]  # Any: of the kind `segment`, and its share


def load_backends() -> Mapping[type[Segment], Backend]:
    """Return the backends that files of `backends/` define, by the kind of segment they open."""
    found: dict[type[Segment], Backend] = {}
    for path in sorted((Path(__file__).parent / "backends").glob("[a-z]*.py")):
        backend = import_module(f".backends.{path.stem}", __package__).BACKEND
        if backend.segment in found:
            raise AssertionError(f"{path.name}: another backend opens {backend.segment.__name__}")
        found[backend.segment] = backend
    return found
