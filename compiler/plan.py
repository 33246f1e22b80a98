"""The plan: what the compiler hands to the runtime. Plain frozen data, nothing else is shared.

A pipeline's body is a Block of steps (`plan_steps.py`) that run segments, and how these are served
is in `policies.py`. The names of both are here too: the runtime looks no further than this file.
The file format is in `plan_file.py`.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..dsl.types import DimVar, Field, Signature, Type
from ..stdlib.op import Literal
from .plan_steps import Block as Block
from .plan_steps import BranchStep as BranchStep
from .plan_steps import CallStep as CallStep
from .plan_steps import Check as Check
from .plan_steps import CheckStep as CheckStep
from .plan_steps import EachStep as EachStep
from .plan_steps import EmitStep as EmitStep
from .plan_steps import LoopStep as LoopStep
from .plan_steps import Place as Place
from .plan_steps import SpreadStep as SpreadStep
from .plan_steps import Step as Step
from .plan_steps import SwitchStep as SwitchStep
from .plan_steps import TogetherStep as TogetherStep
from .plan_steps import TransferStep as TransferStep
from .plan_steps import TryStep as TryStep
from .policies import NO_SERVICE
from .policies import Batching as Batching
from .policies import EngineBuild as EngineBuild
from .policies import Isolation as Isolation
from .policies import Padding as Padding
from .policies import Priorities as Priorities
from .policies import Queueing as Queueing
from .policies import Sequencing as Sequencing
from .policies import Service as Service

BACKENDS: Final = "headrace.backends"
"""The entry points of packages that run models of kinds of their own."""

ENGINES: Final = ("tensorrt", "tensorrt_rtx")
"""Backends that build an engine of a model, for sizes that they are told of."""

PROVIDED: Final = ("onnx_tensorrt", "onnx_tensorrt_rtx")
"""Backends that are ONNX Runtime with a provider that builds engines as sizes come."""

ON_DEVICES: Final = ("onnx", *PROVIDED, *ENGINES, "kernel")
"""Backends whose stages take and give values in a device's memory."""


@dataclass(frozen=True, slots=True)
class Pads:
    """Rows of different `dim` may share a run: each input is filled up with its value of `fill` at
    the end (None: it has no such axis), and results are cut back to what `dim` was of each row."""

    dim: DimVar
    fill: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class ShapeRange:
    """Between which shapes an input may be, its batch axis included, and what it mostly is."""

    input: str  # as the file names it
    name: str  # as the signature does
    least: tuple[int, ...]
    usual: tuple[int, ...]
    most: tuple[int, ...]

    def __str__(self) -> str:
        least, usual, most = (
            "x".join(map(str, one)) for one in (self.least, self.usual, self.most)
        )
        return f"{self.name} {least}" + (f" to {most}, mostly {usual}" if least != most else "")


@dataclass(frozen=True, slots=True)
class ModelSegment:
    """A model: a (fused) ONNX graph, or what another `kind` of file or address holds, of which
    `entry` is called; `backend` runs it. Names and axes are in the signature's order; an axis of
    None has no batch axis; `stackable` says that rows of equal shape may share one run, `pads` of
    which sizes they may differ, where `batching` has `padding`. `told` says that it is given the
    request of each row behind its inputs."""

    name: str
    members: tuple[str, ...]
    model: str  # digest in Plan.blobs
    signature: Signature
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_axes: tuple[int | None, ...]
    output_axes: tuple[int | None, ...]
    device: str
    batching: Batching | None
    group: int  # rows of one request that may share a run without a queue; 1 is each row alone
    instances: int | None
    queueing: Queueing | None
    checks: tuple[Check, ...]
    place: Place
    pads: tuple[Pads, ...] = ()
    service: Service = NO_SERVICE
    where: tuple[Check, ...] = ()  # what it asks of sizes, to which its calls are held
    kind: str = "onnx"
    backend: str = "onnx"
    entry: str = ""
    told: bool = False
    ranges: tuple[ShapeRange, ...] = ()  # of its inputs, where an engine is built for them

    @property
    def home(self) -> str:
        """The device in whose memory it takes and gives values: what other libraries run takes
        them from the host's, whichever `device` it runs on."""
        return self.device if self.backend in ON_DEVICES else "cpu"

    @property
    def stackable(self) -> bool:
        return any(axis is not None for axis in self.input_axes)


@dataclass(frozen=True, slots=True)
class OpSegment:
    """A stdlib op run through its reference implementation."""

    name: str
    op: str
    results: tuple[Type, ...]
    place: Place

    @property
    def backend(self) -> str:
        return "op"


@dataclass(frozen=True, slots=True)
class PythonSegment:
    """A Python function from a packed source file, or with `group` (as of a ModelSegment) a class,
    `instances` objects of which are called one execution at a time each. `device` is told to their
    constructor; values stay in the host's memory. Isolated, `instances` are its processes. `told`
    says that it is given the request of each row behind what its signature names."""

    name: str
    source: str  # digest in Plan.blobs
    file: str  # the name that tracebacks show
    attribute: str
    signature: Signature
    batched: bool
    batching: Batching | None
    queueing: Queueing | None
    checks: tuple[Check, ...]
    place: Place
    instances: int | None = None
    group: int | None = None
    device: str = "cpu"
    pads: tuple[Pads, ...] = ()
    service: Service = NO_SERVICE
    told: bool = False
    where: tuple[Check, ...] = ()  # as of a ModelSegment

    @property
    def backend(self) -> str:
        return "python"

    @property
    def is_class(self) -> bool:
        return self.group is not None


Segment: TypeAlias = ModelSegment | OpSegment | PythonSegment


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input of a pipeline; with `has_default` a caller may leave it out."""

    field: Field
    has_default: bool
    default: Literal


@dataclass(frozen=True, slots=True)
class StateVariable:
    """A value that is kept from one request of a sequence to the next, in a device's memory."""

    field: Field
    initial: Literal
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Unseen:
    """A value of the source that no request makes: the pass `by` has put it inside of the model
    `inside`, or ("") has found that it need not be made."""

    name: str
    by: str
    inside: str
    place: Place


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """One pipeline. The body of a `stream` gives nothing in the end: `results` are what each
    EmitStep sends. The last parameters of the body are `states`, its last results what they become;
    they are kept for `idle` seconds (None: the pipeline is not per sequence). Between inputs and
    states are `controls`, what the body reads of the request's sequence.

    `subsets` is filled lazily by the runtime, never stored: a caller may ask for some results only,
    and steps that feed none of them must not run."""

    name: str
    parameters: tuple[Parameter, ...]
    results: tuple[Field, ...]
    body: Block
    batch: int | None
    deadline: float | None
    queueing: Queueing | None
    place: Place
    stream: bool = False
    states: tuple[StateVariable, ...] = ()
    idle: float | None = None
    controls: tuple[Field, ...] = ()
    priority: Priorities | None = None
    sequencing: Sequencing | None = None
    unseen: tuple[Unseen, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Peak bytes of one request's values on a device, beside the lower bound.

    `unplanned` names the values whose size is known only when they are made; they are in neither.
    """

    pipeline: str
    device: str
    peak: int
    lower_bound: int
    budget: int | None
    unplanned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declined:
    """What a pass (or "plan") looked at and left as it was; `reason` is a sentence."""

    pipeline: str
    by: str
    stage: str
    reason: str
    place: Place


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything needed to run, without the sources.

    `blobs` holds models, Python sources and assets by SHA-256 digest; `explanation` is the text
    of `headrace explain` by stage of compilation; `declined` what was not done, and why.
    `resources` are the totals of the rate limiter; of one that is not named there is as much as the
    stage takes that takes most.
    """

    producer: str  # headrace version that made it
    pipelines: tuple[PipelinePlan, ...]
    segments: tuple[Segment, ...]
    memory: tuple[MemoryPlan, ...]
    explanation: tuple[tuple[str, str], ...] = field(repr=False)
    declined: tuple[Declined, ...]
    blobs: tuple[tuple[str, bytes], ...] = field(repr=False)
    resources: tuple[tuple[str, int], ...] = ()
    target: str = ""  # the machine that it was compiled for, where one was named

    def pipeline(self, name: str) -> PipelinePlan:
        return next(p for p in self.pipelines if p.name == name)

    def blob(self, digest: str) -> bytes:
        return dict(self.blobs)[digest]
