"""Models of Triton's Python backend: `model.py` files as they are, each in processes of its own, or
where a schedule says so in the engine's.

A plan has the folder of the model's version and what is beside it (`config.pbtxt`, modules, files).
It is unpacked where the plan is loaded, and workers import the model from there. Plans that have
the same model have the same workers: an ensemble, and the model that it asks.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from ...compiler.plan import ModelSegment
from ..backend import Backend, Loading
from ..division import Share
from ..isolation.lease import Lease
from ..isolation.pool import Pool
from ..load_error import BAD_MODEL, LoadError
from ..model_backend import ports
from ..model_folder import folder_name, unpacked
from ..pump import Pump
from ..stage import StageError, policy_of
from ..triton_python.bound import Bound
from ..triton_python.calls import Calls
from ..triton_python.config import Config, arguments, declared, parameter, read_config, shapes_of
from ..triton_python.decoupled import NextStage, OpenStage
from ..triton_python.environment import interpreter
from ..triton_python.inside import ModelInside
from ..triton_python.instances import Instances
from ..triton_python.iterating import IteratingStage
from ..triton_python.iterative import iterations_of
from ..triton_python.process import ModelProcess
from ..triton_python.program import ModelProgram
from ..triton_python.stages import TritonStage

_ENVIRONMENT: Final = "EXECUTION_ENV_PATH"


def open_model(segment: ModelSegment, index: int, share: Share, loading: Loading) -> TritonStage:
    """Return the stage of a model or of a part of it; raises LoadError."""
    part = segment.entry.partition(":")[2]
    if part == "next":
        return NextStage(segment, None, None, index)
    segment = replace(segment, instances=segment.instances or 1)
    try:
        make = partial(_Model, segment, share, loading)
        model = loading.shared(_key(segment, loading), make, by_plans=True, anew=True)
    except StageError as error:
        message = f"model `{folder_name(loading.blobs[segment.model]) or segment.name}`"
        raise LoadError(BAD_MODEL, f"{message}, {segment.place}: {error.message}") from error
    first = model.is_new()
    leases = [loading.outside(Lease(pool, first=first), model.name) for pool in model.pools]
    pool = leases[0] if len(leases) == 1 else Bound(leases)
    policy = policy_of(segment)
    if part == "open":
        threads = [
            loading.own(Pump(f"headrace-{segment.name}-{number}"))
            for number in range(segment.instances or 1)
        ]
        return OpenStage(segment, pool, policy, index, model.iterations, threads, model.shapes)
    if model.iterations is None or policy is None:
        return TritonStage(segment, pool, policy, index, model.iterations, model.shapes)
    again = replace(policy, again=True)
    return IteratingStage(segment, pool, again, index, model.iterations, model.shapes)


def _key(segment: ModelSegment, loading: Loading) -> Hashable:
    """Return all that the workers of a model depend on, but their share of the cores: that is what
    the first plan gives them."""
    service = segment.service
    return (
        "triton model",
        segment.model,
        segment.entry,
        segment.signature,
        (segment.input_names, segment.input_axes, segment.output_names, segment.output_axes),
        (segment.device, segment.instances),
        (service.isolation, service.in_process, service.cpus, service.threads),
        id(loading.nested),  # which they hold
    )


class _Model:
    """The workers of a model, or its instances here, for all plans that have it: the model itself,
    and ensembles."""

    def __init__(self, segment: ModelSegment, share: Share, loading: Loading) -> None:
        """Raises StageError or LoadError where one cannot be started."""
        self._new, self._claiming = True, threading.Lock()
        blob, count = loading.blobs[segment.model], segment.instances or 1
        with ExitStack() as opened:
            folder = opened.enter_context(unpacked(blob))
            written = read_config(folder, folder_name(blob) or segment.name)
            self.name, self.iterations = str(written["name"]), iterations_of(written)
            self.shapes = shapes_of(written)
            bound = bool(written.get("sequence_batching")) and self.iterations is None
            found = _found(segment, share, folder, written, opened)
            calls = opened.enter_context(closing(Calls(loading.nested, found.outputs)))
            pool = _inside if segment.service.in_process else _pool
            self.pools: list[Pool | Instances] = [
                opened.enter_context(closing(pool(found, calls, numbers)))
                for numbers in ([range(count)] if not bound else [[n] for n in range(count)])
            ]
            self._opened = opened.pop_all()

    def is_new(self) -> bool:
        """Whether this is asked for the first time."""
        with self._claiming:
            new, self._new = self._new, False
        return new

    def close(self) -> None:
        self._opened.close()


class _Found(NamedTuple):
    """What a worker runs, what it is told by the number of its instance, and the names of the
    model's outputs."""

    program: ModelProgram
    told: Callable[[int], dict[str, str]]
    outputs: list[str]


def _found(
    segment: ModelSegment, share: Share, folder: Path, written: Config, opened: ExitStack
) -> _Found:
    """Read what the folder of a model has; `opened` closes what is made of that."""
    file, _, part = segment.entry.partition(":")
    inputs = ports(segment.input_names, segment.signature.params, segment.input_axes)
    outputs = ports(segment.output_names, segment.signature.results, segment.output_axes)
    rows = any(axis is not None for axis in (*segment.input_axes, *segment.output_axes))
    decoupled = part == "open"
    config = declared(written, inputs, () if decoupled else outputs, rows, segment.device)
    python, variables = None, dict[str, str]()
    if environment := parameter(config, _ENVIRONMENT):
        if segment.service.in_process:
            message = f"its environment `{environment}` needs a process ({_ENVIRONMENT})"
            raise StageError(f"{message}, and `isolate = off` leaves it none: leave that out")
        where = opened.enter_context(TemporaryDirectory(prefix="headrace-env-"))
        python, variables = interpreter(environment, folder, Path(where))
    service = segment.service
    isolation = service.isolation
    told = partial(arguments, config, folder, file.partition("/")[0], segment.device)
    program = ModelProgram(
        config["name"],
        config["name"],
        str(folder / file),
        told(0),
        decoupled,
        True,
        python,
        variables,
        None if isolation is None else isolation.memory,
        None if isolation is None else isolation.timeout,
        service.cpus,
        service.threads if service.threads is not None else share.threads,
    )
    named = _named_outputs(config) if decoupled else [port.name for port in outputs]
    return _Found(program, told, named)


def _pool(found: _Found, calls: Calls, instances: Sequence[int]) -> Pool:
    """Start the workers of some instances of a model."""

    def make(number: int) -> ModelProcess:
        told = found.told(instances[number])
        return ModelProcess(replace(found.program, arguments=told), calls)

    return Pool(found.program, len(instances), make=make)


def _inside(found: _Found, calls: Calls, instances: Sequence[int]) -> Instances:
    """Make some instances of a model in this process."""

    def make(number: int) -> ModelInside:
        told = found.told(instances[number])
        return ModelInside(replace(found.program, arguments=told), calls)

    return Instances(make, len(instances))


def _named_outputs(config: Config) -> list[str]:
    return [str(one["name"]) for one in config.get("output") or ()]


BACKEND = Backend(open_model, ("triton_python",))
