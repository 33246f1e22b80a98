"""An engine on a GPU, and the contexts that run it.

The weights are there once; a context is what one run at a time has for itself. Contexts come
without scratch: each run leases it from the device's pool, so that stages that do not run at one
time use the same memory. A context is used again when its last run has ended, which the stream of
the next is told by an event.
"""

import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ...dsl.types import DType
from ..devices.cuda_driver import Gpu
from ..devices.device import Event, Stream
from ..load_error import NO_ENGINE, LoadError
from .build import Request
from .package import HEARD, Package

_DTYPES: Final = {
    "FLOAT": DType.F32,
    "HALF": DType.F16,
    "BF16": DType.BF16,
    "UINT8": DType.U8,
    "INT32": DType.I32,
    "INT64": DType.I64,
    "BOOL": DType.BOOL,
}


@dataclass(frozen=True, slots=True)
class Port:
    """An input or result as the engine has it; `on_host` is one that decides about sizes."""

    name: str
    dtype: DType
    given: bool
    on_host: bool


@dataclass(slots=True, eq=False)
class Context:
    """What one run at a time uses; `last` is behind the last of them."""

    handle: Any  # Any: of an untyped module
    fresh: bool = True
    last: Event | None = None
    kept: list[object] = field(default_factory=list[object])

    def follow(self, stream: Stream) -> None:
        """Let a stream wait for the last run."""
        if self.last is not None and self.last.stream is not stream:
            stream.wait(self.last)


class Engine:
    """What a plan's bytes are on a GPU. `gpu` says that the driver was asked before the library
    is. Several threads may borrow contexts."""

    def __init__(self, package: Package, content: bytes, request: Request, gpu: Gpu) -> None:
        """Raises LoadError where the bytes are of another version or GPU."""
        del gpu
        self.package = package
        self.heard: deque[str] = deque(maxlen=HEARD)
        module, self._logger = package.module, package.logger(self.heard)
        self._runtime: Any = module.Runtime(self._logger)  # Any: of an untyped module
        if request.settings.dla is not None:
            self._runtime.DLA_core = request.settings.dla
        engine = self._runtime.deserialize_cuda_engine(content)
        if engine is None:
            told = "; ".join(self.heard) or "it does not say why"
            raise request.refused(f"{package.title} does not run its engine here: {told}")
        self._engine: Any = engine  # Any: likewise
        budget = request.settings.weight_budget
        if budget is not None and engine.streamable_weights_size:
            engine.weight_streaming_budget_v2 = min(budget, engine.streamable_weights_size)
        self.ports = {port.name: port for port in self._ports(request)}
        self._idle: list[Context] = [self._context()]
        self._lock = threading.Lock()

    def _ports(self, request: Request) -> Iterator[Port]:
        module, engine = self.package.module, self._engine
        for index in range(engine.num_io_tensors):
            name = engine.get_tensor_name(index)
            word = str(engine.get_tensor_dtype(name)).rpartition(".")[2]
            if word not in _DTYPES:
                raise request.refused(f"`{name}` is {word} in its engine, which values cannot be")
            given = engine.get_tensor_mode(name) == module.TensorIOMode.OUTPUT
            on_host = engine.get_tensor_location(name) == module.TensorLocation.HOST
            yield Port(name, _DTYPES[word], given, on_host)

    @contextmanager
    def context(self) -> Generator[Context]:
        """Lend a context that no other run has; there are as many as are in use at once."""
        with self._lock:
            found = self._idle.pop() if self._idle else None
        context = found or self._context()
        try:
            yield context
        finally:
            with self._lock:
                self._idle.append(context)

    def prepare(self, context: Context, stream: int) -> bool:
        """Give a new context its profile, where it has none of itself; return whether it has."""
        if not context.fresh or not self.package.dialect.sharing:
            return True
        context.fresh = False
        return bool(context.handle.set_optimization_profile_async(0, stream))

    def scratch(self, context: Context) -> int:
        """Return how much scratch a run takes, of the sizes that the context was told of."""
        if self.package.dialect.user_managed:
            return int(context.handle.update_device_memory_size_for_shapes())
        return int(self._engine.device_memory_size)

    def give_scratch(self, context: Context, address: int, nbytes: int) -> None:
        if self.package.dialect.user_managed:
            context.handle.set_device_memory(address, nbytes)
        else:
            context.handle.device_memory = address

    def refit(self, model: bytes) -> str | None:
        """Exchange the weights for those of another model of the same shape, while nothing runs;
        return why that fails."""
        module = self.package.module
        refitter = module.Refitter(self._engine, self._logger)
        parser = module.OnnxParserRefitter(refitter, self._logger)
        if not parser.refit_from_bytes(model) or not refitter.refit_cuda_engine():
            return "; ".join(self.heard) or "it does not say why"
        return None

    def serialized(self) -> bytes:
        return bytes(memoryview(self._engine.serialize()))

    def close(self) -> None:
        """Let go of contexts, engine and runtime, in this order, when all runs have ended."""
        for context in self._idle:
            if context.last is not None:
                with suppress(Exception):  # who asked for what failed there was told
                    context.last.synchronize()
        self._idle.clear()
        self._engine = self._runtime = None

    def _context(self) -> Context:
        module, engine = self.package.module, self._engine
        if self.package.dialect.user_managed:
            managed = module.ExecutionContextAllocationStrategy.USER_MANAGED
            handle = engine.create_execution_context(managed)
        else:
            handle = engine.create_execution_context_without_device_memory()
        if handle is None:
            told = "; ".join(self.heard) or "it does not say why"
            raise LoadError(NO_ENGINE, f"{self.package.title} makes no context: {told}")
        return Context(handle)
