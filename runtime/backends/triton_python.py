"""Models of Triton's Python backend: `model.py` files as they are, each in processes of its own.

A plan has the folder of the model's version and what is beside it (`config.pbtxt`, modules, files).
It is unpacked where the plan is loaded, and workers import the model from there.
"""

from collections.abc import Hashable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ...compiler.plan import ModelSegment
from ..backend import Backend, Loading
from ..division import Share
from ..isolation.pool import Pool
from ..load_error import BAD_MODEL, LoadError
from ..model_backend import ports
from ..model_folder import folder_name, unpacked
from ..stage import StageError, policy_of
from ..triton_python.bound import Bound
from ..triton_python.calls import Calls
from ..triton_python.config import Config, arguments, declared, parameter, read_config
from ..triton_python.decoupled import NextStage, OpenStage
from ..triton_python.environment import interpreter
from ..triton_python.iterative import iterations_of
from ..triton_python.process import ModelProcess
from ..triton_python.program import ModelProgram
from ..triton_python.pump import Pump
from ..triton_python.stages import TritonStage

_ENVIRONMENT: Final = "EXECUTION_ENV_PATH"


def open_model(segment: ModelSegment, index: int, share: Share, loading: Loading) -> TritonStage:
    """Return the stage of a model or of a part of it; raises LoadError."""
    file, _, part = segment.entry.partition(":")
    if part == "next":
        return NextStage(segment, None, None, index)
    segment = replace(segment, instances=segment.instances or 1)
    folder = loading.shared(("triton folder", segment.model), partial(Folder, segment, loading))
    called = folder_name(loading.blobs[segment.model]) or segment.name
    written = read_config(folder.path, called)
    iterations = iterations_of(written)
    bound = bool(written.get("sequence_batching")) and iterations is None
    threads = [
        loading.own(Pump(f"headrace-{segment.name}-{number}"))
        for number in range(segment.instances or 1 if part == "open" else 0)
    ]
    try:
        pool = _pools(segment, file, part, share, folder, written, loading, bound=bound)
    except StageError as error:
        message = f"model `{written['name']}`, {segment.place}: {error.message}"
        raise LoadError(BAD_MODEL, message) from error
    policy = policy_of(segment)
    if part == "open":
        return OpenStage(segment, pool, policy, index, iterations, threads)
    return TritonStage(segment, pool, policy, index, iterations)


def _pools(
    segment: ModelSegment,
    file: str,
    part: str,
    share: Share,
    folder: "Folder",
    written: Config,
    loading: Loading,
    *,
    bound: bool,
) -> Pool | Bound:
    """Return the workers of a model, `bound` where each has sequences of its own."""
    count = segment.instances or 1
    rest = (file, part, share, folder, written, loading)
    if not bound or count == 1:
        return _pool(segment, *rest, 0)
    alone = replace(segment, instances=1)
    return Bound([_pool(alone, *rest, number) for number in range(count)])


def _pool(
    segment: ModelSegment,
    file: str,
    part: str,
    share: Share,
    folder: "Folder",
    written: Config,
    loading: Loading,
    first: int,
) -> Pool:
    version = file.partition("/")[0]
    inputs = ports(segment.input_names, segment.signature.params, segment.input_axes)
    outputs = ports(segment.output_names, segment.signature.results, segment.output_axes)
    rows = any(axis is not None for axis in (*segment.input_axes, *segment.output_axes))
    decoupled = part == "open"
    config = declared(written, inputs, () if decoupled else outputs, rows, segment.device)
    python, variables = None, dict[str, str]()
    if environment := parameter(config, _ENVIRONMENT):
        python, variables = folder.interpreter(environment)
    service = segment.service
    isolation = service.isolation
    program = ModelProgram(
        config["name"],
        config["name"],
        str(folder.path / file),
        arguments(config, folder.path, version, segment.device, 0),
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
    calls = loading.own(Calls(loading.nested, named))

    def make(number: int) -> ModelProcess:
        told = arguments(config, folder.path, version, segment.device, first + number)
        return ModelProcess(replace(program, arguments=told), calls)

    return loading.outside(Pool(program, segment.instances or 1, make=make), config["name"])


def _named_outputs(config: Config) -> list[str]:
    return [str(one["name"]) for one in config.get("output") or ()]


@dataclass(eq=False)
class Folder:
    """The folder of a model, unpacked as long as its plan is loaded."""

    segment: ModelSegment
    loading: Loading

    def __post_init__(self) -> None:
        self._closing = ExitStack()
        self.path = self._closing.enter_context(unpacked(self.loading.blobs[self.segment.model]))
        self._found: dict[Hashable, tuple[str, dict[str, str]]] = {}

    def interpreter(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the interpreter of an environment."""
        if path not in self._found:
            where = self._closing.enter_context(TemporaryDirectory(prefix="headrace-env-"))
            self._found[path] = interpreter(path, self.path, Path(where))
        return self._found[path]

    def close(self) -> None:
        self._closing.close()


BACKEND = Backend(open_model, ("triton_python",))
