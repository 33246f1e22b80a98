"""The typed graph of one pipeline: SSA values, nodes, and nested regions for control flow.

Everything is immutable. Values and nodes are compared by identity; a pass rebuilds the regions
it changes and shares the rest. A region may use values of the regions around it (captures);
`verify.py` says precisely what is well formed. Records do not exist here: a call with several
results has several outputs. Pipelines and in-language functions that are called are inlined,
and `return ... when` has become an `If` whose other arm holds what follows.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from ..dsl.source import Span
from ..dsl.types import Dim, DimVar, Field, Signature, Type
from ..stdlib.op import Literal, Op
from .policies import (
    NO_SERVICE,
    Batching,
    Priorities,
    Queueing,
    Sequencing,
    Service,
    SizeRange,
)
from .precision.report import Precision, Rewritten
from .profile import Profile


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value in SSA form: made once, by a node or as a region's parameter."""

    type: Type
    name: str  # as in the source where it has a name, else made from the stage's
    span: Span


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. Its node has no inputs and one output."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class OpCall:
    """A stdlib op; one input per parameter (literals are Constants), one output per result."""

    op: Op


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model, by its name in `Graph.models`; an optional input left out is a Constant None."""

    model: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """An external function, by its name in `Graph.functions`."""

    function: str


@dataclass(frozen=True, slots=True)
class If:
    """Input 0 is the condition; regions are `then`, `else`; no region parameters."""


@dataclass(frozen=True, slots=True)
class Match:
    """Input 0 is the subject; region i runs for `cases[i]`, the last region for all else."""

    cases: tuple[tuple[Literal, ...], ...]


@dataclass(frozen=True, slots=True)
class For:
    """Inputs are lists or tensors walked side by side, one region parameter each.

    The region's results are what `yield` names; with `filtered` its last result is a bool that
    says whether the item is kept. Outputs gather the kept items in order.
    """

    filtered: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """Input 0 is the most iterations; the others start what the region's parameters carry.

    The region's results are what `next` gives; with `stops` its last result is a bool that says
    whether this iteration was the last. Outputs are what was carried in the end.
    """

    stops: bool = False


@dataclass(frozen=True, slots=True)
class Try:
    """Regions are the body and what runs where that fails or takes longer than `within` s."""

    within: float | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """Regions that do not need each other and may run at once; inserted by `run_together` only.

    Outputs are the results of each region, in their order.
    """


@dataclass(frozen=True, slots=True)
class Emit:
    """Sends its inputs, one a result of the pipeline, to the caller and goes on."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy to another device's memory; inserted by placement only. `origin` is where it comes
    from, for those who read: a copy is the same from wherever."""

    device: str
    origin: str = field(default="cpu", compare=False)


Kind: TypeAlias = (
    Constant
    | OpCall
    | ModelCall
    | FunctionCall
    | If
    | Match
    | For
    | Loop
    | Try
    | Together
    | Emit
    | Transfer
)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One step. `stage` names it in explain, schedules, errors, metrics (`read`, `image.warp`)."""

    kind: Kind
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    span: Span
    stage: str
    regions: tuple["Region", ...] = ()
    checks: tuple["Check", ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Dimensions that must agree at run time (a `where` or an Assumption that was not proved)."""

    left: Dim
    op: str  # "==", "!=", "<", "<=", ">", ">="
    right: Dim
    text: str  # as the user reads it: "H % 32 == 0"


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Nodes in an order in which they can run, what comes in, what goes out."""

    params: tuple[Value, ...]
    nodes: tuple[Node, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes by their SHA-256; equality and hash look at the digest alone."""

    digest: str
    content: bytes = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pads:
    """Says that rows of different `dim` may share a run of the model. `fill` has a value for each
    input, which is put behind its rows to make them equally long; None: it has no such axis."""

    dim: DimVar
    fill: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class ModelDef:
    """A model as the graph calls it.

    `signature` is of one item. `input_names`/`output_names` are the file's own names in the
    signature's order. `input_axes`/`output_axes` give the batch axis of each, None when the
    tensor has none; all None means that the model cannot batch. `content` is None when a
    declared signature was checked without the file. `members` names what was fused into it, in
    order of execution. `where` is what it asks of sizes, to which its calls are held. `pads` says
    of which dimensions rows may differ; `told` that it is given the request of each row as well;
    `entry` what of it is called, where that is not all of it; `precision` what was rewritten in it.
    """

    name: str
    backend: str
    location: str
    signature: Signature
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_axes: tuple[int | None, ...]
    output_axes: tuple[int | None, ...]
    content: Blob | None
    span: Span
    members: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    pads: tuple[Pads, ...] = ()
    told: bool = False
    where: tuple[Check, ...] = ()
    entry: str = ""
    precision: tuple[Rewritten, ...] = ()

    @property
    def batches(self) -> bool:
        return any(axis is not None for axis in self.input_axes)


@dataclass(frozen=True, slots=True)
class FunctionDef:
    """An external function: `attribute` of the Python module whose text is `source`, or of the
    library that it holds; `told` says that it is given the request of each row behind its
    arguments."""

    name: str
    signature: Signature
    kind: str  # "python" or "native"
    location: str  # "ocr.py:quads"
    attribute: str
    source: Blob | None
    span: Span
    batched: bool = False
    pure: bool = False
    told: bool = False


@dataclass(frozen=True, slots=True)
class StageSettings:
    """What a schedule says of one stage; None where it says nothing."""

    batching: Batching | None = None
    batching_off: bool = False
    instances: int | None = None
    device: str | None = None
    queueing: Queueing | None = None
    service: Service = NO_SERVICE
    warmed: bool = False  # at loading, with a row and with as many as may run together
    backend: str | None = None
    precision: Precision | None = None
    stays: str = ""  # why the backend that was asked for does not run it
    spread: tuple[tuple[str, int], ...] = ()  # devices and instances, where there are several


@dataclass(frozen=True, slots=True)
class Settings:
    """A schedule resolved against its pipeline. `stages` is keyed by stage name."""

    name: str | None = None
    stages: tuple[tuple[str, StageSettings], ...] = ()
    queueing: Queueing | None = None
    device: str | None = None
    memory: tuple[tuple[str, int], ...] = ()
    priority: Priorities | None = None
    sequencing: Sequencing | None = None
    resources: tuple[tuple[str, int], ...] = ()
    sizes: tuple[tuple[Dim, SizeRange], ...] = ()  # of the pipeline's dimensions

    def stage(self, name: str) -> StageSettings:
        return dict(self.stages).get(name, StageSettings())


@dataclass(frozen=True, slots=True)
class StateVariable:
    """A value that is kept from one request of a sequence to the next, in a device's memory."""

    field: Field
    initial: Literal
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Graph:
    """One pipeline. `body.params` stand for `signature.params`, then for `controls`, what is read
    of the request's sequence, then for `states`; `body.results` for the results, then for what the
    states become.

    A `stream` has no results in the end: those of its signature are what each `Emit` sends.
    `defaults` holds a pair (known, literal) for each parameter; `profile` what models took where
    the pipeline was measured.
    """

    name: str
    signature: Signature
    defaults: tuple[tuple[bool, Literal], ...]
    body: Region
    models: tuple[ModelDef, ...]
    functions: tuple[FunctionDef, ...]
    settings: Settings
    span: Span
    batch: int | None = None
    deadline: float | None = None
    profile: Profile | None = None
    stream: bool = False
    states: tuple[StateVariable, ...] = ()
    idle: float | None = None  # seconds that states are kept; None: not per sequence
    controls: tuple[Field, ...] = ()
    called: str = ""  # what it is served as, where that is another name
    outside: tuple[str, ...] = ()  # what callers call parameters, then results; (): as here

    def model(self, name: str) -> ModelDef:
        return next(model for model in self.models if model.name == name)

    def function(self, name: str) -> FunctionDef:
        return next(function for function in self.functions if function.name == name)
