"""What a pass is: a pure function from a graph to a graph that says what it would not do and why.

One pass is one file in `passes/` that defines `PASS`; `optimize.py` finds, orders and runs them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from ..dsl.source import Span
from .graph import Graph
from .onnx_store import OnnxStore


class Phase(IntEnum):
    """Phases run in this order; within one, `Pass.after` and then the name decide."""

    SIMPLIFY = 1  # fewer nodes of the same kind
    FUSE = 2  # several stages become one unit of execution
    PLACE = 3  # devices and copies between them
    OVERLAP = 4  # what need not wait for each other


@dataclass(frozen=True, slots=True)
class Declined:
    """Something a pass looked at and left as it is. `reason` is a sentence that names stages."""

    stage: str
    reason: str
    span: Span


@dataclass(frozen=True, slots=True)
class PassContext:
    """What passes of one compilation share: the ONNX models, parsed once. `declined` is what the
    passes before have left of the graph as it was."""

    models: OnnxStore = field(default_factory=OnnxStore)
    declined: tuple[Declined, ...] = ()


@dataclass(frozen=True, slots=True)
class PassResult:
    """The new graph; the very same one when nothing changed."""

    graph: Graph
    changed: bool
    declined: tuple[Declined, ...] = ()


Run: TypeAlias = Callable[[Graph, PassContext], PassResult]


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass. `after` names passes of the same phase that must have run before it.

    `run` is idempotent and gives equal graphs for equal graphs.
    """

    name: str
    phase: Phase
    run: Run
    after: tuple[str, ...] = ()
