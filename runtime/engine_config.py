"""How an engine is set up."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .admission import Intake
from .devices.device import Device
from .load import LoadConfig
from .nested import Nested
from .units import Units


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """`workers` threads run what is submitted (None: one a core); `intra_op_threads` are those of
    one model run (None: the cores divided, `division.py`). So many `processes` serve together, and
    share the cores in equal parts. `queue_size` bounds the requests of
    one pipeline that wait to start, where its schedule says nothing; `sequences` how many of one
    pipeline are kept at once; `bytes_in_flight` the inputs of all requests that were submitted, or
    came over the wire, and have no answer yet. With `predict` those that cannot be in time are
    refused, or dropped before they run. `clock` is monotonic, in seconds; deadlines are told on it.
    `tensorrt` lets TensorRT run what stands on a GPU, by way of ONNX Runtime: faster, slower to
    load, other last bits. `engines` is the folder in which engines are kept that are built of
    stages whose `backend` is TensorRT (None: they are built at each loading).
    `devices` are open already and stay so; others are opened as the plan asks for them.
    `nested` answers stages that ask for other models (None: the engine itself does). `units` are
    those that several engines share (None: the resources of each plan are its own)."""

    workers: int | None = None
    intra_op_threads: int | None = None
    queue_size: int = 1024
    bytes_in_flight: int = 1 << 30
    predict: bool = True
    sequences: int = 4096
    clock: Callable[[], float] = time.monotonic
    tensorrt: bool = False
    devices: tuple[Device, ...] = ()
    nested: Nested | None = None
    units: Units | None = None
    engines: Path | None = None
    processes: int = 1

    def worker_threads(self) -> int:
        """Return the number of workers."""
        if self.workers is not None:
            return self.workers
        return max(1, len(os.sched_getaffinity(0)) // self.processes)

    def intake(self) -> Intake:
        """Return how much is taken in."""
        return Intake(self.queue_size, self.bytes_in_flight, self.predict)

    def loading(self) -> LoadConfig:
        """Return what a plan is loaded for."""
        return LoadConfig(
            self.worker_threads(),
            self.intra_op_threads,
            self.tensorrt,
            warm=True,
            devices=self.devices,
            engines=self.engines,
            processes=self.processes,
        )
