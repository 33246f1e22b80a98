"""What a backend is: how a segment is opened. One a file in `backends/`, or in another package.

A segment says by name what runs it: a file here has that name, and so has the entry point, in the
group `headrace.backends`, of a package that offers one. Either holds a `Backend`, and only those
that a plan names are imported. What several segments may use together (a session, the module of a
source) a backend asks `Loading` for by a key, and whatever it opens is handed to `Loading` to be
closed, so that no backend keeps anything between plans. What opens models is `model_backend.py`.
"""

import threading
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar, cast

from ..compiler.plan import BACKENDS, ModelSegment, Segment
from .devices import open_device
from .devices.device import Device
from .division import Share
from .load_error import NO_BACKEND, LoadError
from .nested import Nested
from .shared import Closable, Shared
from .stage import Stage


class Outside(Closable, Protocol):
    """What serves a stage from another process, and may be down. It may be closed twice. What it is
    asked while it `rehearses` is asked again of each process that is started later."""

    @property
    def rehearses(self) -> bool: ...

    @rehearses.setter
    def rehearses(self, rehearses: bool) -> None: ...

    @property
    def is_up(self) -> bool: ...


NO_BUDGETS: Final[Mapping[str, int]] = MappingProxyType({})

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
        nested: Nested | None = None,
        budgets: Mapping[str, int] = NO_BUDGETS,
        engines: Path | None = None,
    ) -> None:
        """`tensorrt` gives what runs on a GPU to TensorRT, by way of ONNX Runtime; `engines` is the
        folder of engines that are built of stages. `store` is what plans have in common;
        `devices` are open already, and stay so. `nested` is what stages may ask of the server;
        `budgets` are bytes of devices, for those that the plan bounds."""
        self._nested = nested
        self._store = store
        self.blobs, self.tensorrt, self.budgets = blobs, tensorrt, budgets
        self.engines = engines
        self._closing = ExitStack()
        self._devices: dict[str, Device] = {one.name: one for one in devices}
        self._shared: dict[Hashable, Closable] = {}
        self._anew: set[Hashable] = set()
        self._outside: list[tuple[Outside, str]] = []

    def device(self, name: str) -> Device:
        """Return a device, opened at first use; raises LoadError where there is no such."""
        if name not in self._devices:
            self._devices[name] = self.own(open_device(name))
        return self._devices[name]

    @property
    def nested(self) -> Nested:
        """What stages may ask of the server that runs them."""
        if self._nested is None:
            raise LoadError(NO_BACKEND, "a stage asks for other models, and nobody serves any here")
        return self._nested

    def shared(
        self,
        key: Hashable,
        make: Callable[[], Opened],
        *,
        by_plans: bool = False,
        anew: bool = False,
    ) -> Opened:
        """Return what was made for `key`, which is made at first use and closed with the plan, or
        where it may be shared `by_plans`, with the last that uses it; `anew` where it is to begin
        anew when the plan is let go and loaded again.

        The key says all that what is made depends on.
        """
        if key not in self._shared:
            if by_plans and self._store is not None:
                thing = self._shared[key] = self._store.take(key, make)
                self._closing.callback(self._store.give_back, key, thing)
                if anew:
                    self._anew.add(key)
            else:
                self._shared[key] = self.own(make())
        return cast("Opened", self._shared[key])  # one kind of key, one kind of thing

    def forget(self) -> None:
        """Let no plan that is loaded later share what is to begin anew."""
        if self._store is not None:
            for key in self._anew:
                self._store.forget(key)

    def own(self, opened: Opened) -> Opened:
        """Take over what only one segment uses, to close it with the plan."""
        self._closing.callback(opened.close)
        return opened

    def outside(self, opened: Outer, stage: str) -> Outer:
        """Take over what serves a stage from outside of this process, or this plan's part in it."""
        self._outside.append((opened, stage))
        return self.own(opened)

    def down(self) -> tuple[str, ...]:
        """Return the stages that nothing serves for now."""
        return tuple(stage for opened, stage in self._outside if not opened.is_up)

    @contextmanager
    def rehearsing(self) -> Generator[None]:
        """Let what is run meanwhile be run again wherever it is started anew."""
        outside = [opened for opened, _ in self._outside]
        for opened in outside:
            opened.rehearses = True
        try:
            yield
        finally:
            for opened in outside:
                opened.rehearses = False

    def stop(self) -> None:
        """Close what serves from outside, whatever it is at: side by side, for what one has been
        asked may wait for what it asks of another."""
        closing = [threading.Thread(target=opened.close) for opened, _ in self._outside]
        for one in closing:
            one.start()
        for one in closing:
            one.join()

    def close(self) -> None:
        self._shared.clear()
        self._devices.clear()
        self._closing.close()


@dataclass(frozen=True, slots=True)
class Backend:
    """What a file of `backends/` defines as `BACKEND`, and what an entry point names.

    `open` is given a segment, its number in the plan and its share of the cores (None: the segment
    is no model); it raises LoadError where this machine cannot run it. `kinds` are those of models
    that it opens (none: it opens what is no model).
    """

    open: Callable[[Any, int, Any, Loading], Stage]  # Any: a segment of this backend, and its share
    kinds: tuple[str, ...] = ()


def open_stage(segment: Segment, index: int, share: Share | None, loading: Loading) -> Stage:
    """Return the stage of a segment, opened by the backend that it names; raises LoadError."""
    backend = find_backend(segment.backend)
    if isinstance(segment, ModelSegment) and segment.kind not in backend.kinds:
        raise LoadError(
            NO_BACKEND,
            f"stage `{segment.name}`, {segment.place}: the backend `{segment.backend}` runs "
            f"{', '.join(backend.kinds) or 'no models'}, and the model is of kind `{segment.kind}`",
            "name another `backend` in the schedule, or none",
        )
    return backend.open(segment, index, share, loading)


def find_backend(name: str) -> Backend:
    """Return the backend of a name; raises LoadError where neither headrace nor an installed
    package has it, or the package's cannot be imported."""
    if name.isidentifier() and (Path(__file__).parent / "backends" / f"{name}.py").is_file():
        return import_module(f".backends.{name}", __package__).BACKEND
    offered = {one.name: one for one in entry_points(group=BACKENDS)}
    if name not in offered:
        raise LoadError(
            NO_BACKEND,
            f"the plan has models that `{name}` runs, and nothing of that name is installed",
            f"install the package that offers the backend `{name}`",
        )
    try:
        found = offered[name].load()
    except Exception as error:  # it is another's code, which may fail in any way
        message = f"the backend `{name}` cannot be imported: {type(error).__name__}: {error}"
        raise LoadError(
            NO_BACKEND, message, f"see the entry point {offered[name].value}"
        ) from error
    if not isinstance(found, Backend):
        message = f"{offered[name].value}, which `{name}` stands for, is no headrace Backend"
        raise LoadError(NO_BACKEND, message, "see docs/backends.md for what a package offers")
    return found
