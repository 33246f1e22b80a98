"""What a configuration says of how a model runs, as settings of a stage and of a pipeline."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ..complete import ONNX, PYTHON
from ..config import Message
from .resources import Available, most, priority

_CPU, _GPU = "KIND_CPU", "KIND_GPU"
THREADS = "intra_op_thread_count"
ENVIRONMENT: Final = "EXECUTION_ENV_PATH"
PROVIDERS: Final = {"openvino": "openvino", "tensorrt": "onnx_tensorrt"}
"""What runs a model with an accelerator of Triton's: these are ONNX Runtime's providers there."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a server is told beside its repository: how many bytes its cache has (None: there is
    none), what is said of how much there is of what instances take (None: that is not counted), and
    whether Python models are in the server's process where they can be."""

    cache: int | None = None
    resources: tuple[Available, ...] | None = None
    in_process: bool = False


@dataclass(slots=True)
class Settings:
    """Lines of a `schedule`: those of each stage, and those of the pipeline."""

    stages: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    pipeline: list[str] = field(default_factory=list[str])
    totals: dict[str, int] = field(default_factory=dict[str, int])  # of what stages take

    def count(self) -> None:
        """Say how much there is of what stages take, where that is known."""
        counts = [f"{name} = {count}" for name, count in sorted(self.totals.items())]
        if counts:
            self.pipeline.append(f"resources {{ {', '.join(counts)} }}")

    def text(self, pipeline: str) -> str:
        lines = [f"{stage} {{ {', '.join(said)} }}" for stage, said in self.stages.items() if said]
        lines += self.pipeline
        if not lines:
            return ""
        return f"schedule {pipeline} {{\n" + "\n".join(lines) + "\n}\n"


def stage_settings(
    written: Message,
    config: Message,
    serving: Serving,
    *,
    batches: bool,
    python: bool,
    cached: bool = False,
) -> list[str]:
    """Return what is said of a stage; `written` is the configuration before it was completed. Of an
    ensemble that is `cached` all results are kept, but for those of sequences."""
    said: list[str] = []
    waits = False
    # A server that completes a configuration may have put queues where nobody has asked for one.
    if written.HasField("dynamic_batching") and batches:
        said.append(_batch(config.max_batch_size, config.dynamic_batching))
        waits = True
    elif config.HasField("sequence_batching") and batches:
        strategy = config.sequence_batching
        chosen = strategy.oldest if strategy.HasField("oldest") else strategy.direct
        most = config.max_batch_size
        if strategy.iterative_sequence and strategy.oldest.max_candidate_sequences:
            most = min(most, strategy.oldest.max_candidate_sequences)
        said.append(_batch(most, chosen))
        waits = True
    instances = _instances(written, config, python=python)
    if python and config.sequence_batching.iterative_sequence:
        # What it keeps of a request is in one process, where it must be when it comes again.
        instances = ["instances = 1", *instances[1:]]
    said += instances
    waits = waits or any(one.startswith("instances") for one in instances)
    if written.HasField("dynamic_batching") and waits:
        said += _queue(config.dynamic_batching)
    said += _accelerator(config)
    cached = cached and not config.HasField("sequence_batching")
    if serving.cache is not None and (cached or config.response_cache.enable):
        said.append(f"cache = {_size(serving.cache)}")
    if serving.resources is not None:
        said += _resources(config)
    if not python:
        said += _threads(config)
    elif serving.in_process and not needs_process(config):
        said.append("isolate = off")
    return said


def needs_process(config: Message) -> bool:
    """Whether a Python model has an environment of its own, and so an interpreter."""
    return bool(ENVIRONMENT in config.parameters and config.parameters[ENVIRONMENT].string_value)


def sequence_settings(config: Message) -> list[str]:
    """Return how requests of sequences meet."""
    sequences = config.sequence_batching
    count = sum(max(1, group.count) for group in config.instance_group) or 1
    slots = max(1, config.max_batch_size)
    if config.backend == PYTHON and not sequences.HasField("oldest"):
        # It is told of requests, and not shown rows: there is no row that must be a sequence's own.
        return [f"sequences {{ strategy = oldest, max = {slots * count}, backlog = {BACKLOG} }}"]
    if sequences.HasField("oldest"):
        most = sequences.oldest.max_candidate_sequences or slots
        return [f"sequences {{ strategy = oldest, max = {most * count}, backlog = {BACKLOG} }}"]
    if config.max_batch_size > 0:
        return [f"sequences {{ strategy = direct, slots = {slots}, backlog = {BACKLOG} }}"]
    return [f"sequences {{ strategy = oldest, max = {count}, backlog = {BACKLOG} }}"]


BACKLOG = 4096
"""Sequences that may wait for a place. A tritonserver lets any number wait."""


def duration(microseconds: int) -> str:
    """Return a time in the largest unit that says it exactly."""
    for unit, size in (("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000)):
        if microseconds and microseconds % size == 0:
            return f"{microseconds // size}{unit}"
    return f"{microseconds}us"


def _batch(most: int, batching: Message) -> str:
    fields = batching.DESCRIPTOR.fields_by_name
    parts = [f"max = {most}"]
    delay = batching.max_queue_delay_microseconds
    if delay:
        parts.append(f"wait = {duration(delay)}")
    if "preferred_batch_size" in fields:
        sizes = sorted({one for one in batching.preferred_batch_size if 0 < one <= most})
        if sizes and sizes != [most]:
            parts.append(f"prefer = [{', '.join(map(str, sizes))}]")
    return f"batch {{ {', '.join(parts)} }}"


def _queue(batching: Message) -> list[str]:
    said: list[str] = []
    bounds = _bounds(batching.default_queue_policy)
    if batching.priority_levels:
        default = batching.default_priority_level
        parts = [f"levels = {batching.priority_levels}"]
        parts += [f"default = {default}"] if default else []
        said.append(f"priority {{ {', '.join(parts)} }}")
        for level, policy in sorted(batching.priority_queue_policy.items()):
            if one := _bounds(policy):
                bounds.append(f"level({level}) {{ {', '.join(one)} }}")
    if bounds:
        said.append(f"queue {{ {', '.join(bounds)} }}")
    return said


def _bounds(policy: Message) -> list[str]:
    parts: list[str] = []
    if policy.max_queue_size:
        parts.append(f"size = {policy.max_queue_size}")
    if policy.default_timeout_microseconds:
        parts.append(f"timeout = {duration(policy.default_timeout_microseconds)}")
    delay = policy.timeout_action == policy.DELAY
    if delay and (policy.default_timeout_microseconds or policy.allow_timeout_override):
        parts.append("on_timeout = delay")
    if policy.allow_timeout_override:
        parts.append("override = on")
    return parts


def _instances(written: Message, config: Message, *, python: bool) -> list[str]:
    """Return how many instances there are and where; nothing where nobody has said it."""
    groups = _groups(config)
    said: list[str] = []
    if _GPU in _kinds(config):
        gpus = [gpu for one in groups for gpu in one.gpus] or [0]
        said.append(f"device = gpu({gpus[0]})")
    if written.instance_group or python:
        count = sum(max(1, one.count) * max(1, len(one.gpus)) for one in groups)
        said.insert(0, f"instances = {max(1, count)}")
    return said


def _groups(config: Message) -> list[Message]:
    return [one for one in config.instance_group if not one.passive]


def _kinds(config: Message) -> set[str]:
    """Return the kinds of places where there are instances."""
    group = config.DESCRIPTOR.file.message_types_by_name["ModelInstanceGroup"]
    names = group.enum_types_by_name["Kind"].values_by_number
    return {names[one.kind].name for one in _groups(config)}


def accelerators(config: Message) -> Iterator[tuple[str, int, str]]:
    """Yield the accelerators of an ONNX model that are of use where it runs, the first foremost:
    each with its field, its number there and its name. Those of other backends are hints."""
    if config.backend != ONNX:
        return
    asked = config.optimization.execution_accelerators
    fields = ["gpu_execution_accelerator"] if _GPU in _kinds(config) else []
    for field_name in (*fields, "cpu_execution_accelerator"):
        for number, one in enumerate(getattr(asked, field_name)):
            yield field_name, number, one.name


def _accelerator(config: Message) -> list[str]:
    names = [name for _, _, name in accelerators(config)]
    return [f"backend = {PROVIDERS[name]}" for name in names if name in PROVIDERS][:1]


def _resources(config: Message) -> list[str]:
    taken = most(config)
    if not taken:
        return []
    said = ", ".join(f"{name} = {count}" for name, count in taken.items())
    return [f"resources {{ {said} }}", f"weight = {priority(config)}"]


def _threads(config: Message) -> list[str]:
    said = config.parameters[THREADS].string_value if THREADS in config.parameters else ""
    return [f"threads = {said}"] if said.isdigit() and int(said) > 0 else []


def _size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count % size == 0:
            return f"{count // size}{unit}"
    return f"{max(1, count >> 10)}KiB"
