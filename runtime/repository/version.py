"""A version of an app: a plan, loaded, and its pipelines as the wire knows them."""

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from ...compiler.plan import Plan
from ..engine import Engine, EngineConfig
from ..load import Progress
from ..protocols.models import Described, model_of
from ..shared import Shared
from ..turns import Sequences
from .attribution import Attribution, attribute
from .route import Served
from .shadow import Shadow, ShadowTally
from .state import Entry, State


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that could be loaded. Two of equal `stamp` are the same; None says nothing.
    `describe` tells what its pipelines are said to be, where that is not told by the plan; with it
    the apps that it `needs` are loaded."""

    read: Callable[[], Plan]
    stamp: Hashable = None
    describe: Callable[[], Mapping[str, Described]] = dict[str, Described]
    needs: tuple[str, ...] = ()


Find: TypeAlias = Callable[[str], Mapping[int, Candidate]]
"""Returns the versions of an app that are there to be loaded, by their numbers."""

Configure: TypeAlias = Callable[[str, str, Mapping[str, bytes]], Mapping[int, Candidate]]
"""Returns the versions of an app by a configuration in JSON, in place of its own, and by files in
place of its own where there are any; raises ValueError where they cannot be."""

Change: TypeAlias = Callable[[Plan], Plan]
"""Makes the plan that is to be loaded of the one that was found; raises ValueError."""


def changed(candidate: Candidate, change: Callable[[Plan], Plan]) -> Candidate:
    """Return what `change` makes of it, which is the same as nothing else."""
    return replace(candidate, read=lambda: change(candidate.read()), stamp=None)


@dataclass(slots=True, eq=False)
class Version:
    """`hash` is the plan's and names what is loaded; `number` is what callers ask for. With `owned`
    the repository closes the engine. `draining` is set when no new request comes, `ended` when no
    sequence lives on it, and `closed` is done when the version is unloaded."""

    app: str
    number: int
    hash: str
    engine: Engine
    served: Mapping[str, Served]
    stamp: Hashable = None
    described: Mapping[str, Described] = field(default_factory=dict[str, Described])
    needs: tuple[str, ...] = ()
    owned: bool = True
    draining: bool = False
    ended: bool = False
    shadows: dict[str, Shadow] = field(default_factory=dict[str, Shadow])
    attributions: Mapping[str, Attribution] = field(init=False)
    closed: "Future[None]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.attributions = attribute(self.engine.plan, self.described)

    def make_shadows(self, share: float, tallies: dict[tuple[str, str], ShadowTally]) -> None:
        """Let its pipelines be shown a part of the traffic, unless they are already."""
        version = str(self.number)
        for name, one in self.served.items():
            prepared = one.prepared
            if name in self.shadows or prepared.plan.stream or prepared.sequences is not None:
                continue
            tally = tallies.setdefault((name, version), ShadowTally())
            self.shadows[name] = Shadow(self.engine, one.prepared, version, share, tally)

    def forget(self) -> None:
        """Let what is loaded from now on have processes of its own; an ensemble leaves those of its
        members to these."""
        if self.owned and not any(one.is_ensemble for one in self.described.values()):
            self.engine.forget()

    def take_shadows(self) -> Mapping[str, Shadow]:
        """Return those that show it traffic, which are the caller's to close."""
        shadows, self.shadows = self.shadows, {}
        return shadows

    def entries(self) -> list[Entry]:
        """Return what is told of its pipelines."""
        state = State.DRAINING if self.draining else State.READY
        return [Entry(self.app, name, self.number, state, "", self.hash) for name in self.served]

    @property
    def sequences(self) -> "list[Sequences]":
        """What its pipelines keep between requests."""
        kept = [one.prepared.sequences for one in self.served.values()]
        return [one for one in kept if one is not None]

    @property
    def finishing(self) -> bool:
        """Whether sequences may live on it though it is draining."""
        return bool(self.sequences) and not self.ended


def served_of(
    engine: Engine, number: int, described: Mapping[str, Described] = MappingProxyType({})
) -> Mapping[str, Served]:
    """Return an engine's pipelines by name; raises NoForm when one's values cannot travel."""
    return {
        pipeline.name: Served(
            model_of(engine.plan, pipeline, str(number), described.get(pipeline.name)),
            engine,
            engine.pipeline(pipeline.name),
        )
        for pipeline in engine.plan.pipelines
    }


def require_own_names(made: Iterable[Version], others: Iterable[Version]) -> None:
    """Raise ValueError where a version of another app has a pipeline of a name among what was
    made."""
    taken = {name: other.app for other in others for name in other.served}
    for version in made:
        for name in version.served:
            if name in taken:
                apps = f"those of the apps `{taken[name]}` and `{version.app}`"
                raise ValueError(f"two plans hold a pipeline `{name}`: {apps}")


def opened(
    plan: Plan,
    config: EngineConfig,
    described: Mapping[str, Described],
    progress: Progress | None,
    shared: Shared | None,
) -> Engine:
    """Load a plan; of ensembles it is counted what they ask of their members."""
    ensembles = [name for name, one in described.items() if one.is_ensemble]
    return Engine(plan, config, progress=progress, shared=shared, counted=ensembles)


def ready(engine: Engine, number: int, described: Mapping[str, Described]) -> Mapping[str, Served]:
    """Return an engine's pipelines by name, run with what they are described to be warmed up with.

    Closes the engine where it raises: NoForm as `served_of` does, or the Fault of a run.
    """
    try:
        served = served_of(engine, number, described)
        for one in served.values():
            for inputs in () if one.model.described is None else one.model.described.warmups:
                one.engine.rehearse(one.prepared, inputs)
    except BaseException:
        engine.close()
        raise
    return served


def when_all_closed(versions: list[Version]) -> "Future[None]":
    """Return a future that is done when these are closed."""
    done: Future[None] = Future()
    left, lock = len(versions), threading.Lock()

    def one_less(_: "Future[None]") -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            done.set_result(None)

    for version in versions:
        version.closed.add_done_callback(one_less)
    return done
