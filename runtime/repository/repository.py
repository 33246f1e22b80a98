"""A repository: apps by name, each in the versions that its policy says, loaded and let go live.

read ─▶ open beside what is served ─▶ new routes ─▶ what they leave out drains (`drains.py`)

Loading and draining happen in threads of their own, never in a request's. Requests read one frozen
table of routes; one that was sent to an engine which has just closed has not begun there
(EngineClosed), and is sent by the next table. So none fails because of an update. A version that
cannot be loaded changes nothing but what `index` tells.
"""

import threading
from collections.abc import Iterable, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from ...compiler.plan import Plan
from ...compiler.plan_file import plan_hash
from ..engine import Engine, EngineConfig
from ..load import Progress
from ..shared import Shared
from ..units import Units
from .app import App
from .brought import brought
from .counts import Totals
from .drains import Drains, drained
from .nested import nested_models
from .policy import Latest, Policy
from .route import Route
from .routes import AppTable, routes_of
from .shadow import ShadowCounts, ShadowTally
from .shares import check_shares
from .state import Entry, LoadFailed, State, Unknown, said
from .version import (
    Candidate,
    Change,
    Configure,
    Find,
    Version,
    changed,
    opened,
    ready,
    require_own_names,
    served_of,
    when_all_closed,
)

_LOADERS = 4


class Repository:
    """Calls may come from any thread; `close` ends everything."""

    def __init__(
        self,
        config: EngineConfig | None = None,
        *,
        policies: Mapping[str, Policy] = MappingProxyType({}),
        find: Find | None = None,
        configure: Configure | None = None,
        takes_files: bool = False,
        takes_code: bool = False,
        strict: bool = False,
        one_stock: bool = False,
    ) -> None:
        """`config` is that of all engines. `policies` are by app, "" for those not named, which
        is the latest version otherwise. `find` serves `load` without a plan, `configure` with
        a configuration beside it. Callers may bring files where it `takes_files`: those that
        belong to a configuration, or else plans, which may hold code where it `takes_code`. A
        `strict` one is not ready while an app could not be loaded. With `one_stock` the resources
        that stages take are those of all apps together."""
        self.configure, self.takes_files, self._strict = configure, takes_files, strict
        self._takes_code = takes_code
        config = config or EngineConfig()
        self.nested = nested_models(self, config.clock, alone=config.processes == 1)
        self._units = Units() if one_stock else None
        self._config = replace(config, nested=self.nested, units=self._units)
        self._policies, self._find = policies, find
        self._shared = Shared()
        self._lock = threading.Lock()
        self._apps: dict[str, App] = {}
        self._routes: Mapping[str, Route] = {}
        self._drains = Drains(self._make_routes)
        self._tallies: dict[tuple[str, str], ShadowTally] = {}
        self._pool = ThreadPoolExecutor(_LOADERS, "headrace-load")
        self._closed = False

    @property
    def routes(self) -> Mapping[str, Route]:
        """Where requests go at this moment, by the pipeline's name."""
        return self._routes

    @property
    def engines(self) -> tuple[Engine, ...]:
        """All engines that are not closed, those that drain included."""
        with self._lock:
            versions = [*self._live(), *self._drains.versions]
        return tuple(version.engine for version in versions)

    @property
    def live(self) -> tuple[Version, ...]:
        """The versions that are served."""
        with self._lock:
            return tuple(self._live())

    def chosen(self, app: str, numbers: Set[int]) -> frozenset[int]:
        """Return which of an app's versions its policy serves."""
        with self._lock:
            return self._app(app).chosen(set(numbers))

    def now(self) -> float:
        """Return the time on the engines' clock, which deadlines are told on."""
        return self._config.clock()

    def adopt(self, app: str, engine: Engine, number: int = 1) -> None:
        """Serve an engine that is somebody else's to close, as a version of an app.

        Raises NoForm when values of its pipelines cannot travel, ValueError where a name is taken.
        """
        version = Version(app, number, "", engine, served_of(engine, number), owned=False)
        with self._lock:
            self._publish(self._app(app), {number: version}, ())

    def load(self, app: str, plan: Plan | None = None, version: int | None = None) -> None:
        """Serve a plan as a version of an app; without one, those that `find` finds.

        `version` None is the one served (the first is 1). Returns when requests go to what is
        loaded; what that replaces drains behind. Raises LoadFailed, and what was served still is;
        Unknown where nothing is found.
        """
        self.load_later(app, plan, version).result()

    def load_later(
        self,
        app: str,
        plan: Plan | None = None,
        version: int | None = None,
        change: Change | None = None,
        config: str | None = None,
        files: Mapping[str, bytes] = MappingProxyType({}),
    ) -> "Future[None]":
        """As `load`, without waiting. What is found is loaded as `change` makes it, or by a
        configuration, and files, in place of its own."""
        if plan is None:
            return self._pool.submit(self._load_found, app, change, config, files)
        return self._pool.submit(self._load_plan, app, plan, version)

    def update(
        self,
        app: str,
        candidates: Mapping[int, Candidate],
        progress: Progress | None = None,
    ) -> "Future[bool]":
        """Serve of these versions those that the app's policy says, and no others; the future tells
        whether that has changed anything, or raises LoadFailed.

        One whose plan is served already stays as it is; none is let go before all are loaded.
        """
        return self._pool.submit(self._update, app, candidates, progress)

    def needs(self, app: str) -> frozenset[str]:
        """Return the apps that were loaded with an app."""
        with self._lock:
            known = self._apps.get(app)
            live = [] if known is None else list(known.live.values())
        return frozenset(name for version in live for name in version.needs)

    def unload(self, app: str) -> "Future[None]":
        """Serve an app no more; the future is done when all of it is closed. Raises Unknown."""
        with self._lock:
            known = self._apps.get(app)
            if known is None or not known.live:
                raise Unknown(f"`{app}` is not loaded")
            going = list(known.live.values())
            for version in going:
                version.forget()
            self._publish(known, {}, known.live.keys())
        for version in going:
            version.closed.add_done_callback(
                partial(self._unloaded, known, version.number, version.hash)
            )
        return when_all_closed(going)

    def weights(self, app: str, shares: Mapping[int, float]) -> None:
        """Give versions their parts of the requests that ask for none, from 0 to 1; the newest one
        without a part has the rest. Versions with a part are served whatever the policy says."""
        check_shares(shares)
        with self._lock:
            known = self._app(app)
            known.shares = dict(shares)
            self._publish(known, {}, ())

    def shadow(self, app: str, version: int, share: float) -> None:
        """Show a version this part of the requests; it answers nobody. 0 ends it."""
        check_shares({version: share})
        with self._lock:
            known = self._app(app)
            known.shadows.pop(version, None)
            if share:
                known.shadows[version] = share
            shown = known.live.get(version)
            before = {} if shown is None else shown.take_shadows()
            self._publish(known, {}, ())
        for shadow in before.values():
            shadow.close()

    def app_of(self, name: str) -> str:
        """Return the app of that name, or the one with such a pipeline; raises Unknown."""
        with self._lock:
            if name in self._apps:
                return name
            for version in self._live():
                if name in version.served:
                    return version.app
        raise Unknown(f"there is no `{name}`")

    def index(self) -> tuple[Entry, ...]:
        """Return what there is, each in its state at this moment."""
        with self._lock:
            entries = [entry for app in self._apps.values() for entry in app.entries()]
            entries += [one for version in self._drains.versions for one in version.entries()]
        return tuple(sorted(entries, key=lambda one: (one.pipeline, one.version, one.state.value)))

    def unready(self) -> tuple[str, ...]:
        """Return why what is served cannot answer, each reason a sentence; none when all can."""
        with self._lock:
            live = self._live()
            tried = [one for app in self._apps.values() for one in app.tried.values()]
        failed = [one for one in tried if self._strict and one.state is State.FAILED]
        return (
            *(f"`{one.app}` version {one.version} was not loaded" for one in failed),
            *(
                f"`{version.app}` version {version.number}: {reason}"
                for version in live
                for reason in version.engine.unready
            ),
        )

    def totals(self) -> Totals:
        """Return what all versions have counted since the start, those that are closed included."""
        with self._lock:
            return self._drains.totals(self._live())

    def shadow_counts(self) -> Mapping[tuple[str, str], ShadowCounts]:
        """Return what came of the copies shown, by pipeline and version."""
        with self._lock:
            return {key: tally.counts for key, tally in self._tallies.items()}

    def drain(self, timeout: float | None) -> bool:
        """Let no engine take requests, and wait for those under way; False if they took longer."""
        return drained(self.engines, timeout, self._config.clock)

    def close(self) -> None:
        """Load nothing more and close all engines that are not somebody else's."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(cancel_futures=True)
        with self._lock:
            for app in self._apps.values():
                self._publish(app, {}, [n for n, version in app.live.items() if version.owned])
        self._drains.close()
        if self._units is not None:
            self._units.close()

    def _load_plan(self, app: str, plan: Plan, version: int | None) -> None:
        with self._lock:
            known = self._app(app)
        with known.loading:
            number = version if version is not None else max(known.live, default=1)
            stay = known.chosen({*known.live, number})
            if number not in stay:
                numbers = ", ".join(map(str, sorted(stay))) or "none"
                cause = ValueError(f"its policy is {known.policy}, which serves {numbers}")
                raise LoadFailed(app, number, cause, stays=bool(known.live))
            made = self._open(known, number, Candidate(lambda: plan))
            self._serve(known, {} if made is None else {number: made}, known.live.keys() - stay)

    def _load_found(
        self,
        app: str,
        change: Change | None = None,
        config: str | None = None,
        files: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        candidates: Mapping[int, Candidate] = {}
        if config is not None and self.configure is not None:
            candidates = self.configure(app, config, files)
        elif files and self.takes_files:
            candidates = brought(files, code=self._takes_code)
        elif self._find is not None:
            candidates = self._find(app)
        if change is not None:
            candidates = {n: changed(candidate, change) for n, candidate in candidates.items()}
        if not candidates:
            raise Unknown(f"there is no `{app}` to be loaded")
        for need in dict.fromkeys(name for one in candidates.values() for name in one.needs):
            if not self._app(need).live:
                self._load_found(need)
        self._update(app, candidates)

    def _update(
        self, app: str, candidates: Mapping[int, Candidate], progress: Progress | None = None
    ) -> bool:
        with self._lock:
            known = self._app(app)
        with known.loading:
            wanted = known.chosen(set(candidates))
            failures: list[LoadFailed] = []
            made: dict[int, Version] = {}
            for number in sorted(wanted):
                try:
                    version = self._open(known, number, candidates[number], progress)
                except LoadFailed as failure:
                    failures.append(failure)
                else:
                    made |= {} if version is None else {number: version}
            gone: Set[int] = set[int]() if failures else known.live.keys() - wanted
            self._serve(known, made, gone)
            with self._lock:
                known.tried = {n: e for n, e in known.tried.items() if n in candidates}
            for other in failures[1:]:
                failures[0].add_note(str(other))
            if failures:
                raise failures[0]
            return bool(made or gone)

    def _open(
        self, app: App, number: int, candidate: Candidate, progress: Progress | None = None
    ) -> Version | None:
        """Load a version, beside what is served; None when it is served already."""
        live = app.live.get(number)
        if live is not None and candidate.stamp is not None and live.stamp == candidate.stamp:
            return None
        self._tell(app, number, State.LOADING)
        digest = ""
        try:
            plan = candidate.read()
            digest = plan_hash(plan)
            described = candidate.describe()
            if live is not None and live.hash == digest and live.described == described:
                live.stamp = candidate.stamp
                self._tell(app, number, None)
                return None
            engine = opened(plan, self._config, described, progress, self._shared)
            served = ready(engine, number, described)
        except Exception as error:
            self._tell(app, number, State.FAILED, said(error), digest)
            raise LoadFailed(app.name, number, error, stays=bool(app.live)) from error
        known = (candidate.stamp, described, candidate.needs)
        return Version(app.name, number, digest, engine, served, *known)

    def _unloaded(self, app: App, number: int, digest: str, _: "Future[None]") -> None:
        with self._lock:
            if number not in app.live and number not in app.tried:
                app.tell(number, State.UNLOADED, "unloaded", digest)

    def _tell(
        self, app: App, number: int, state: State | None, reason: str = "", digest: str = ""
    ) -> None:
        with self._lock:
            app.tell(number, state, reason, digest)

    def _serve(self, app: App, made: Mapping[int, Version], gone: Iterable[int]) -> None:
        """Let requests go to what was loaded, or close it and raise LoadFailed."""
        try:
            with self._lock:
                if self._closed:
                    raise ValueError("the repository is closed")
                self._publish(app, made, gone)
        except ValueError as error:
            for number, version in made.items():
                version.engine.close()
                self._tell(app, number, State.FAILED, said(error), version.hash)
            number = min(made, default=0)
            raise LoadFailed(app.name, number, error, stays=bool(app.live)) from error

    def _publish(self, app: App, made: Mapping[int, Version], gone: Iterable[int]) -> None:
        """Change what is served, and let drain what is no more. The lock is held.

        Raises ValueError, and nothing is changed, where another app has a pipeline of that name.
        """
        require_own_names(made.values(), (one for one in self._live() if one.app != app.name))
        out = {*gone, *made}
        going = [version for number, version in app.live.items() if number in out]
        app.live = {n: version for n, version in app.live.items() if n not in out} | dict(made)
        for number in made:
            app.tell(number, None)
        for number, share in app.shadows.items():
            if number in app.live:
                app.live[number].make_shadows(share, self._tallies)
        self._set_routes(going)
        for version in going:
            self._drains.begin(version)

    def _make_routes(self) -> None:
        with self._lock:
            self._set_routes(())

    def _set_routes(self, going: Iterable[Version]) -> None:
        """Make the routes anew; `going` are about to drain. The lock is held."""
        finishing = [one for one in (*self._drains.versions, *going) if one.finishing]
        tables = [AppTable(app.live, app.shares, app.shadows) for app in self._apps.values()]
        self._routes = routes_of(tables, finishing)

    def _live(self) -> list[Version]:
        """Return the versions that are served. The lock is held."""
        return [version for app in self._apps.values() for version in app.live.values()]

    def _app(self, name: str) -> App:
        """Return an app, known from now on. The lock is held."""
        if name not in self._apps:
            policy = self._policies.get(name, self._policies.get("", Latest()))
            self._apps[name] = App(name, policy)
        return self._apps[name]
