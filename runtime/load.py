"""Makes everything that a plan needs to run: devices, sessions, functions, stages.

Nothing is opened twice: one session per model and device, one module per Python source. What a
kind of segment takes is known to its backend alone.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ..compiler.plan import ModelSegment, OpSegment, PipelinePlan, Plan, Segment
from ..compiler.plan_walk import copies_of, segments_of
from .backend import Loading, open_stage
from .cache import Cache
from .chain_stage import ChainStage
from .chains import chains
from .devices.device import Device
from .division import divide
from .instance import ModelStage
from .load_error import NO_CORE, LoadError
from .nested import Nested
from .seats import SeatedStage
from .shared import Shared
from .stage import Stage
from .transfer import TransferStage
from .warmup import warm_up

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with how many stages are loaded, how many there are, and the name of the next."""


@dataclass(frozen=True, slots=True)
class LoadConfig:
    """For whom a plan is loaded: so many `workers` run its stages at one time, and a run of a
    model takes `threads` where its schedule does not say (None: the cores are divided).
    `tensorrt` gives what runs on a GPU to TensorRT, by way of ONNX Runtime; `engines` is the folder
    in which engines are kept; with `warm` stages are warmed up as their
    schedule says. `devices` are open already; they are used instead of others of their names.
    `nested` is what stages may ask of the server. So many `processes` share the cores."""

    workers: int = 1
    threads: int | None = 1
    tensorrt: bool = False
    warm: bool = False
    devices: tuple[Device, ...] = ()
    nested: Nested | None = None
    engines: Path | None = None
    processes: int = 1


class Stages:
    """The stages of a plan: `all` holds one per segment, then one per device copied to and one per
    chain, which pipelines have by their names; `shares` what each segment has of the cores,
    `caches` those of segments by number, `told` how many parameters those have that are given the
    request behind them."""

    def __init__(
        self,
        plan: Plan,
        config: LoadConfig | None = None,
        progress: Progress | None = None,
        shared: Shared | None = None,
    ) -> None:
        """`shared` is what this plan has in common with others. Raises LoadError where this machine
        cannot run the plan; nothing stays open then."""
        config = config or LoadConfig()
        cores = sorted(os.sched_getaffinity(0))
        self._loading = Loading(
            dict(plan.blobs),
            tensorrt=config.tensorrt,
            store=shared,
            devices=config.devices,
            nested=config.nested,
            budgets=budgets_of(plan),
            engines=config.engines,
        )
        self.shares = divide(
            plan.segments, max(1, len(cores) // config.processes), config.workers, config.threads
        )
        self.all: list[Stage] = []
        self._transfers: dict[str, Stage] = {}
        self.chains: dict[str, list[ChainStage]] = {}
        self.caches = {
            index: Cache(segment, segment.service.cache)
            for index, segment in enumerate(plan.segments)
            if not isinstance(segment, OpSegment) and segment.service.cache is not None
        }
        self.told = {
            index: len(segment.signature.params)
            for index, segment in enumerate(plan.segments)
            if not isinstance(segment, OpSegment) and segment.told
        }
        try:
            for segment in plan.segments:
                _check_cores(segment, cores)
            self._open(plan, progress, config.warm)
        except BaseException:
            self.close()
            raise

    def _open(self, plan: Plan, progress: Progress | None, warm: bool) -> None:
        for segment, share in zip(plan.segments, self.shares, strict=True):
            if progress is not None:
                progress(len(self.all), len(plan.segments), segment.name)
            stage = open_stage(segment, len(self.all), share, self._loading)
            self.all.append(stage)
            if warm and not isinstance(segment, OpSegment):
                # values of what is in Python stay on the host, whatever device it is told
                where = segment.home if isinstance(segment, ModelSegment) else "cpu"
                with self._loading.rehearsing():
                    warm_up(segment, stage, self.device(where))
        for pipeline in plan.pipelines:
            self._seat(plan, pipeline)
            kept = [one.device for one in pipeline.states if one.device != "cpu"]
            for device in (*copies_of(pipeline.body), *kept):
                if device not in self._transfers:
                    stage = TransferStage(self.device(device), len(self.all))
                    self._transfers[device] = stage
                    self.all.append(stage)
        for pipeline in plan.pipelines:
            self.chains[pipeline.name] = self._chained(plan, pipeline)
        if progress is not None:
            progress(len(plan.segments), len(plan.segments), "")

    def _seat(self, plan: Plan, pipeline: PipelinePlan) -> None:
        """Let each sequence have a row of its own where a pipeline says so and rows meet."""
        if pipeline.sequencing is None or pipeline.sequencing.slots is None:
            return
        for index in segments_of(pipeline.body):
            segment = plan.segments[index]
            if not isinstance(segment, OpSegment) and segment.batching is not None:
                axes = segment.input_axes if isinstance(segment, ModelSegment) else ()
                common = [number for number, axis in enumerate(axes) if axis is None]
                self.all[index] = SeatedStage(self.all[index], pipeline.sequencing.slots, common)

    def _chained(self, plan: Plan, pipeline: PipelinePlan) -> list[ChainStage]:
        """Add the stages of what a batch of a pipeline goes through together."""
        found: list[ChainStage] = []
        able = {
            i: one for i, one in enumerate(self.all) if isinstance(one, ModelStage) and one.chains
        }
        for chain in chains(pipeline, plan.segments, able.__contains__):
            numbers = [call.segment for call in chain.calls]
            segments = [one for i in numbers if isinstance(one := plan.segments[i], ModelSegment)]
            stage = ChainStage(chain, [able[i] for i in numbers], segments, len(self.all))
            self.told[stage.index] = len(chain.inputs)
            self.all.append(stage)
            found.append(stage)
        return found

    def transfer(self, device: str) -> Stage:
        """Return the stage that copies to a device."""
        return self._transfers[device]

    def device(self, name: str) -> Device:
        """Return a device, opened at first use."""
        return self._loading.device(name)

    def down(self) -> tuple[str, ...]:
        """Return the stages that cannot run for now, though they were loaded."""
        return self._loading.down()

    def rehearsing(self) -> "AbstractContextManager[None]":
        """Let what is run meanwhile be run again by each process that is started anew."""
        return self._loading.rehearsing()

    def forget(self) -> None:
        """Let no plan that is loaded later share what is to begin anew."""
        self._loading.forget()

    def stop(self) -> None:
        """End what runs in other processes, so that nobody waits for it; `close` follows."""
        self._loading.stop()

    def close(self) -> None:
        """Give back devices and modules; nothing may run any more."""
        self._loading.close()


def budgets_of(plan: Plan) -> dict[str, int]:
    """Return what the pipelines of a plan may take of each device: the most that one may, of those
    devices of which none may take any amount."""
    found: dict[str, int] = {}
    unbound: set[str] = set()
    for one in plan.memory:
        if one.budget is None:
            unbound.add(one.device)
        else:
            found[one.device] = max(one.budget, found.get(one.device, 0))
    return {device: most for device, most in found.items() if device not in unbound}


def _check_cores(segment: Segment, cores: Sequence[int]) -> None:
    """Raise LoadError where a stage is pinned to a core that this process may not use."""
    if isinstance(segment, OpSegment):
        return
    missing = [str(cpu) for cpu in segment.service.cpus if cpu not in cores]
    if missing:
        there = ", ".join(map(str, cores))
        raise LoadError(
            NO_CORE,
            f"stage `{segment.name}`, {segment.place}: its `cpus` name {', '.join(missing)}, and "
            f"this process may use {there}",
            "name others in the schedule, or start the process where these are allowed",
        )
