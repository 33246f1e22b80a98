"""Makes everything that a plan needs to run: devices, sessions, functions, stages.

Nothing is opened twice: one session per model and device, one module per Python source.
"""

from collections.abc import Callable
from typing import TypeAlias, assert_never

from ..compiler.plan import (
    Batching,
    OnnxSegment,
    OpSegment,
    Plan,
    PythonSegment,
    Segment,
)
from ..compiler.plan_walk import copies_of
from ..stdlib.catalog import Catalog, load_catalog
from .backends.onnx import OnnxSession
from .backends.python import PythonStage, Sources
from .backends.python_model import Instances
from .devices import open_device
from .devices.device import Device
from .instance import OnnxStage
from .load_error import BAD_SOURCE, NO_OP, LoadError
from .op_stage import OpStage
from .stage import Policy, Stage, StageError
from .transfer import TransferStage

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with how many stages are loaded, how many there are, and the name of the next."""


class Stages:
    """The stages of a plan: `all` holds one per segment, then one per device copied to."""

    def __init__(
        self,
        plan: Plan,
        intra_op_threads: int,
        *,
        alone: bool,
        progress: Progress | None,
        tensorrt: bool = False,
    ) -> None:
        """`alone` says that no other session runs at the same time on these cores; `tensorrt`
        gives what runs on a GPU to TensorRT."""
        self._blobs = dict(plan.blobs)
        self._sources = Sources()
        self._instances: list[Instances] = []
        self._devices: dict[str, Device] = {"cpu": open_device("cpu")}
        self._sessions: dict[tuple[str, str], OnnxSession] = {}
        models = sum(isinstance(segment, OnnxSegment) for segment in plan.segments)
        self._threads, self._spin = intra_op_threads, alone and models == 1
        self._tensorrt = tensorrt
        self.all: list[Stage] = []
        ops = load_catalog() if any(isinstance(one, OpSegment) for one in plan.segments) else None
        for segment in plan.segments:
            if progress is not None:
                progress(len(self.all), len(plan.segments), segment.name)
            self.all.append(self._stage(segment, ops))
        self._transfers: dict[str, Stage] = {}
        for pipeline in plan.pipelines:
            for device in copies_of(pipeline.body):
                if device not in self._transfers:
                    stage = TransferStage(self.device(device), len(self.all))
                    self._transfers[device] = stage
                    self.all.append(stage)
        if progress is not None:
            progress(len(plan.segments), len(plan.segments), "")

    def transfer(self, device: str) -> Stage:
        """Return the stage that copies to a device."""
        return self._transfers[device]

    def device(self, name: str) -> Device:
        """Return a device, opened at first use."""
        if name not in self._devices:
            self._devices[name] = open_device(name)
        return self._devices[name]

    def close(self) -> None:
        """Give back devices and modules; nothing may run any more."""
        for instances in self._instances:
            instances.close()
        self._sources.close()
        self._sessions.clear()
        for device in self._devices.values():
            device.close()

    def _stage(self, segment: Segment, ops: Catalog | None) -> Stage:
        index = len(self.all)
        match segment:
            case OnnxSegment():
                device = self.device(segment.device)
                session = self._session(segment)
                return OnnxStage(segment, session, device, _policy(segment), index)
            case PythonSegment():
                function = self._function(segment)
                return PythonStage(segment, function, _policy(segment), index)
            case OpSegment():
                if ops is None:
                    raise AssertionError("a plan with ops has loaded the catalog")
                try:
                    return OpStage(segment, ops.op(segment.op), index)
                except KeyError as error:
                    message = f"the plan uses the op `{segment.op}`, which this headrace lacks"
                    help = "compile the sources again with this headrace, or run a newer one"
                    raise LoadError(NO_OP, message, help) from error
            case _:
                assert_never(segment)

    def _session(self, segment: OnnxSegment) -> OnnxSession:
        key = (segment.model, segment.device)
        if key not in self._sessions:
            try:
                self._sessions[key] = OnnxSession(
                    self._blobs[segment.model],
                    segment.output_names,
                    self.device(segment.device),
                    self._threads,
                    spin=self._spin,
                    tensorrt=self._tensorrt,
                )
            except LoadError as error:
                message = f"stage `{segment.name}`, {segment.place}: {error.message}"
                raise LoadError(error.code, message, error.help) from error
        return self._sessions[key]

    def _function(self, segment: PythonSegment) -> Callable[..., object]:
        try:
            function = self._sources.function(segment, self._blobs[segment.source])
            if segment.instances is None:
                return function
            name, device = segment.attribute, segment.device
            instances = Instances(function, name, device, segment.instances)
            self._instances.append(instances)
            return instances
        except StageError as error:
            message = f"stage `{segment.name}`, {segment.place}: {error.message}"
            raise LoadError(BAD_SOURCE, message) from error.__cause__


def _policy(segment: OnnxSegment | PythonSegment) -> Policy | None:
    instances = segment.instances
    if segment.batching is None and segment.queueing is None and instances is None:
        return None
    rows = segment.group or 1
    batching = segment.batching or Batching(rows, 0.0, ())
    return Policy(batching, segment.queueing, instances)
