"""From what is live to where requests go: one route for each pipeline's name. A decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .route import Route, Served
from .shares import bounds, main_of
from .version import Version


@dataclass(frozen=True, slots=True)
class AppTable:
    """The live versions of an app by number, and who gets which part of the traffic or a copy."""

    live: Mapping[int, Version]
    shares: Mapping[int, float]
    shadows: Mapping[int, float]


def routes_of(apps: Sequence[AppTable], finishing: Sequence[Version]) -> Mapping[str, Route]:
    """Return the routes; `finishing` are versions that drain while sequences live on them."""
    routes: dict[str, Route] = {}
    for app in apps:
        names = [name for version in app.live.values() for name in version.served]
        for name in dict.fromkeys(names):
            routes[name] = _route(name, app, finishing)
    for version in finishing:
        for name in version.served:
            if name not in routes:
                routes[name] = Route({}, None, finishing=_of(name, finishing))
    return routes


def _route(name: str, app: AppTable, finishing: Sequence[Version]) -> Route:
    live = {number: one.served[name] for number, one in app.live.items() if name in one.served}
    answering = {**dict.fromkeys(app.shadows, 0.0), **app.shares}
    main = main_of(frozenset(live), answering)
    assert main is not None, "a pipeline without a version has no route"
    parts = bounds({number: share for number, share in app.shares.items() if number in live}, main)
    return Route(
        {str(number): one for number, one in sorted(live.items())},
        live[main],
        tuple((upto, live[number]) for upto, number in parts),
        _of(name, finishing),
        tuple(
            app.live[number].shadows[name]
            for number in sorted(app.shadows)
            if number in live and name in app.live[number].shadows
        ),
    )


def _of(name: str, finishing: Sequence[Version]) -> tuple[Served, ...]:
    return tuple(version.served[name] for version in reversed(finishing) if name in version.served)
