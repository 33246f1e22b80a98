"""Policies as text, one way for explain, its differences and pictures."""

from .plan import ModelSegment, PythonSegment
from .policies import (
    Batching,
    EngineBuild,
    Isolation,
    Padding,
    Priorities,
    Queueing,
    Sequencing,
    Service,
)
from .profile import seconds_text

BY_DEFAULT = (
    "where nothing else is said: any number of runs at once, threads as the engine has, in its"
    " process, no cache, no run at loading"
)


def describe_batching(batching: Batching) -> str:
    """Return a batch policy as the schedule would write it, in one line."""
    wait = f"wait {batching.wait * 1000:g} ms" if batching.wait else "no wait"
    text = f"batch up to {batching.maximum}, {wait}"
    text += f", prefer {list(batching.prefer)}" if batching.prefer else ""
    return text + (f", {_padding(batching.padding)}" if batching.padding is not None else "")


def describe_queueing(queueing: Queueing) -> str:
    """Return the bounds of a queue, those of single priorities behind them."""
    text = _bounds(queueing)
    for number, level in queueing.levels:
        text += f"; of priority {number} {_bounds(level)}"
    return f"queue {text}"


def describe_priorities(priority: Priorities) -> str:
    return f"priorities 1 to {priority.levels}, else {priority.default}"


def describe_sequencing(sequencing: Sequencing) -> str:
    """Return how sequences are put together, with the bounds that there are."""
    backlog = f", {sequencing.backlog} more wait" if sequencing.backlog is not None else ""
    if sequencing.strategy == "direct":
        return f"sequences direct, {sequencing.slots} slots{backlog}"
    most = f", at most {sequencing.most}" if sequencing.most is not None else ""
    return f"sequences oldest first{most}{backlog}"


def describe_pipeline(
    queueing: Queueing | None, priority: Priorities | None, sequencing: Sequencing | None
) -> tuple[str, ...]:
    """Return what is said of how requests of a pipeline are served, a phrase each."""
    said: list[str] = []
    said += [describe_queueing(queueing)] if queueing is not None else []
    said += [describe_priorities(priority)] if priority is not None else []
    said += [describe_sequencing(sequencing)] if sequencing is not None else []
    return tuple(said)


def describe_resources(resources: tuple[tuple[str, int], ...]) -> str:
    return f"resources {', '.join(f'{name} {count}' for name, count in resources)}"


def describe_service(
    service: Service, instances: int | None, queueing: Queueing | None
) -> tuple[str, ...]:
    """Return what is said of a stage beside its batches, a phrase each; nothing of defaults."""
    said: list[str] = []
    said += [f"instances {instances}"] if instances is not None else []
    said += [describe_queueing(queueing)] if queueing is not None else []
    said += [describe_priorities(service.priority)] if service.priority is not None else []
    said += [f"cache {size_text(service.cache)}"] if service.cache is not None else []
    said += [f"warm-up {_numbers(service.warmup)} rows"] if service.warmup else []
    said += ["CUDA graphs of these sizes"] if service.graphs else []
    said += [describe_resources(service.resources)] if service.resources else []
    said += [f"weight {service.weight}"] if service.weight else []
    said += [f"threads {service.threads}"] if service.threads is not None else []
    said += [f"cpus {_numbers(service.cpus)}"] if service.cpus else []
    said += [_isolation(service.isolation)] if service.isolation is not None else []
    said += ["in the server's process"] if service.in_process else []
    said += [f"engine {_engine(service.engine)}"] if service.engine is not None else []
    return tuple(said)


def describe_segment(segment: ModelSegment | PythonSegment) -> tuple[str, ...]:
    """Return how a segment of a plan is served; one object of a Python class is the default."""
    single = isinstance(segment, PythonSegment) and segment.instances == 1
    instances = None if single else segment.instances
    return describe_service(segment.service, instances, segment.queueing)


def size_text(count: int) -> str:
    """Return a count of bytes in the largest unit that it fills: `41.2 MiB`."""
    return " ".join(scaled(count))


def scaled(count: int) -> tuple[str, str]:
    """Return a count of bytes in the largest unit that it fills, and the unit."""
    units = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))
    unit, size = next((found for found in units if count >= found[1]), units[-1])
    return f"{count / size:.1f}".removesuffix(".0"), unit


def _bounds(queueing: Queueing) -> str:
    text = str(queueing.size)
    if queueing.timeout is not None:
        text += f", {queueing.on_timeout} after {seconds_text(queueing.timeout)}"
    elif queueing.override:
        text += f", {queueing.on_timeout}"
    return text + (" or as a request says" if queueing.override else "")


def _isolation(isolation: Isolation) -> str:
    memory = f", {size_text(isolation.memory)}" if isolation.memory is not None else ""
    run = f", {seconds_text(isolation.timeout)} a run" if isolation.timeout is not None else ""
    return f"own process{memory}{run}"


def _engine(engine: EngineBuild) -> str:
    said = [f"for DLA core {engine.dla}"] if engine.dla is not None else []
    said += [f"workspace {size_text(engine.workspace)}"] if engine.workspace is not None else []
    said += [f"level {engine.level}"] if engine.level is not None else []
    said += ["refit"] if engine.refit else []
    if engine.weight_budget is not None:
        said.append(f"{size_text(engine.weight_budget)} of its weights at a time")
    said += ["for other versions"] if engine.version_compatible else []
    said += ["for other GPUs"] if engine.hardware_compatible else []
    return ", ".join(said)


def _padding(padding: Padding) -> str:
    dim = padding.dim.name
    text = f"pad {dim}"
    text += f" where {dim} / {padding.bucket} is equal" if padding.bucket is not None else ""
    return text + (f" to a waste of {padding.waste:g}" if padding.waste is not None else "")


def _numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
