"""What the policies of a plan keep to: counts that can be met, bounds that hold something."""

from collections.abc import Iterable

from .literal_codec import Malformed
from .policies import Batching, EngineBuild, Isolation, Priorities, Queueing, Sequencing, Service


def verify_batching(what: str, batching: Batching | None) -> None:
    """Raise Malformed when no batch can be as a policy has it."""
    if batching is None:
        return
    require(batching.maximum >= 1 and batching.wait >= 0, f"{what} has a batch of no rows")
    require(
        all(1 <= size <= batching.maximum for size in batching.prefer),
        f"{what} prefers batches that cannot be",
    )


def verify_queueing(what: str, queueing: Queueing | None, priority: Priorities | None) -> None:
    """Raise Malformed when a queue holds nothing, or bounds a priority that is not of `priority`
    (None: whatever is said elsewhere)."""
    if queueing is None:
        return
    require(queueing.size >= 1, f"{what} has a queue of no places")
    require(queueing.timeout is None or queueing.timeout > 0, f"{what} lets nothing wait")
    require(queueing.on_timeout in ("reject", "delay"), f"{what} has no such `on_timeout`")
    numbers = [number for number, _ in queueing.levels]
    require(all(number >= 1 for number in numbers), f"{what} bounds a priority below 1")
    require(numbers == sorted(set(numbers)), f"{what} bounds a priority twice")
    if priority is not None and numbers:
        require(numbers[-1] <= priority.levels, f"{what} bounds a priority that there is not")
    for number, level in queueing.levels:
        require(not level.levels, f"{what} has levels within a level")
        verify_queueing(f"{what}, level {number},", level, None)


def verify_priorities(what: str, priority: Priorities | None) -> None:
    """Raise Malformed when the default is not one of the priorities."""
    fits = priority is None or 1 <= priority.default <= priority.levels
    require(fits, f"{what} has a default priority that there is not")


def verify_service(what: str, service: Service, *, python: bool) -> None:
    """Raise Malformed when a stage cannot be served like that; `python` says what it is."""
    verify_priorities(what, service.priority)
    require(service.cache is None or service.cache >= 1, f"{what} has a cache of no bytes")
    require(_ascends(service.warmup, 1), f"{what} is warmed up with no rows")
    require(bool(service.warmup) or not service.graphs, f"{what} has graphs of no size")
    require(_ascends(service.cpus, 0), f"{what} has a core that there is not")
    require(service.threads is None or service.threads >= 1, f"{what} has no thread")
    verify_resources(what, service.resources)
    require(service.weight >= 0, f"{what} weighs less than nothing")
    require(bool(service.resources) or not service.weight, f"{what} weighs, and takes nothing")
    _verify_isolation(what, service.isolation, python=python)
    limits = (service.isolation, service.threads, *service.cpus)
    limited = any(one is not None for one in limits)
    require(not (service.in_process and limited), f"{what} has limits in the engine's process")
    _verify_engine(what, service.engine, python=python)


def verify_resources(what: str, resources: tuple[tuple[str, int], ...]) -> None:
    """Raise Malformed when a resource is named twice or there is none of it."""
    names = [name for name, _ in resources]
    require(len(set(names)) == len(names), f"{what} names a resource twice")
    require(all(count >= 1 for _, count in resources), f"{what} has none of a resource")


def verify_sequencing(what: str, sequencing: Sequencing | None) -> None:
    """Raise Malformed when a strategy has the bounds of another."""
    match sequencing:
        case None:
            return
        case Sequencing("oldest", most, backlog, None):
            fits = all(count is None or count >= 1 for count in (most, backlog))
        case Sequencing("direct", None, backlog, int(slots)):
            fits = slots >= 1 and (backlog is None or backlog >= 1)
        case _:
            fits = False
    require(fits, f"{what} puts sequences together in no way that there is")


def _verify_isolation(what: str, isolation: Isolation | None, *, python: bool) -> None:
    if isolation is None:
        return
    require(python, f"{what} runs no Python that could be isolated")
    require(isolation.memory is None or isolation.memory >= 1, f"{what} has no memory")
    require(isolation.timeout is None or isolation.timeout > 0, f"{what} has no time")


def _verify_engine(what: str, engine: EngineBuild | None, *, python: bool) -> None:
    if engine is None:
        return
    require(not python, f"{what} is Python, of which no engine is built")
    counts = (engine.dla, engine.level)
    require(all(one is None or one >= 0 for one in counts), f"{what} has an engine of no level")
    sizes = (engine.workspace, engine.weight_budget)
    require(all(one is None or one >= 1 for one in sizes), f"{what} has an engine of no memory")


def _ascends(numbers: Iterable[int], least: int) -> bool:
    listed = list(numbers)
    return listed == sorted(set(listed)) and all(number >= least for number in listed)


def require(condition: bool, otherwise: str) -> None:
    """Raise Malformed with what is wrong, when it is."""
    if not condition:
        raise Malformed(otherwise)
