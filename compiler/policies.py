"""What a schedule decides of how stages and pipelines are served: batches, queues, priorities, ...

Plain frozen values, the same in the graph's settings and in the plan. Times are in seconds, sizes
in bytes; None is where nothing is said.
"""

from dataclasses import dataclass
from typing import Final, Literal

from ..dsl.types import DimVar


@dataclass(frozen=True, slots=True)
class Padding:
    """Rows of different `dim` meet where it is equal in units of `bucket`, rounded up (None:
    anywhere); at most the share `waste` of a batch may be padding (None: any)."""

    dim: DimVar
    bucket: int | None = None
    waste: float | None = None


@dataclass(frozen=True, slots=True)
class Batching:
    """A queue in front of a stage: at most `maximum` rows run, the oldest waits `wait` s."""

    maximum: int
    wait: float = 0.0
    prefer: tuple[int, ...] = ()  # ascending
    padding: Padding | None = None


@dataclass(frozen=True, slots=True)
class Queueing:
    """Bounds of a queue; `on_timeout` is "reject" or "delay". With `override` a request that brings
    a time limit of its own waits as long as that allows instead. `levels` are the bounds of single
    priorities, ascending, which hold for those instead."""

    size: int
    timeout: float | None = None
    on_timeout: str = "reject"
    override: bool = False
    levels: tuple[tuple[int, "Queueing"], ...] = ()


@dataclass(frozen=True, slots=True)
class Priorities:
    """Requests are of priority 1, the highest, to `levels`; of `default` where they say nothing."""

    levels: int
    default: int


@dataclass(frozen=True, slots=True)
class Isolation:
    """A stage runs in processes of its own, each of which may take `memory` bytes, and `timeout` s
    for one run."""

    memory: int | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The least and the most that a size may be, and what it mostly is."""

    least: int
    usual: int
    most: int

    def __str__(self) -> str:
        return str([self.least, self.usual, self.most])


@dataclass(frozen=True, slots=True)
class EngineBuild:
    """What TensorRT is to build: for the DLA core `dla`, with `workspace` bytes of scratch, at the
    builder's optimisation `level`; `refit` lets its weights be exchanged, of which `weight_budget`
    bytes lie on the GPU and the others are streamed; whether other versions (`version_compatible`)
    and GPUs (`hardware_compatible`) are to run it."""

    dla: int | None = None
    workspace: int | None = None
    level: int | None = None
    refit: bool = False
    weight_budget: int | None = None
    version_compatible: bool = False
    hardware_compatible: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """How a stage is served beside its batches.

    `cache` is how many bytes of results are kept; `warmup` of how many rows the runs at loading
    are; `resources` what a run takes of the rate limiter's, where it weighs `weight`; `cpus` the
    cores that it runs on and `threads` how many it uses. With `graphs` the runs of a size that it
    is warmed up with are CUDA graphs. A model that else has processes of its own is `in_process`,
    the engine's.
    """

    priority: Priorities | None = None
    cache: int | None = None
    warmup: tuple[int, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    cpus: tuple[int, ...] = ()
    threads: int | None = None
    isolation: Isolation | None = None
    graphs: bool = False
    engine: EngineBuild | None = None  # None: as TensorRT has it, where that runs the stage
    in_process: bool = False
    weight: int = 0


NO_SERVICE: Final = Service()  # nothing is said


@dataclass(frozen=True, slots=True)
class Sequencing:
    """How requests of sequences are put together: "oldest" batches the oldest of at most `most`
    sequences; "direct" gives each sequence one of `slots` places of a batch. At most `backlog`
    sequences wait for another to end, none where it is not said."""

    strategy: Literal["oldest", "direct"]
    most: int | None = None
    backlog: int | None = None
    slots: int | None = None
