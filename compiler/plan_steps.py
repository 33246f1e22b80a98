"""Steps of a plan over numbered slots, and the blocks that they make.

A block runs for a *group* of rows at once: every slot then holds one value per row. Nested blocks
name the slots they capture.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ..dsl.types import Dim, DimVar, Type
from ..stdlib.op import Literal


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the source a step comes from."""

    file: str
    line: int
    column: int
    text: str  # the source line, for errors at run time

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Check:
    """Dimensions compared when a stage has run; `text` is as written."""

    left: Dim
    op: str
    right: Dim
    text: str


@dataclass(frozen=True, slots=True)
class CallStep:
    """Run segment `segment` of the plan on every row."""

    segment: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class BranchStep:
    """Rows whose `condition` holds go through `then`, the others through `orelse`."""

    condition: int
    then: "Block"
    orelse: "Block"
    outputs: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class SwitchStep:
    """Each row goes through the block of the first case that holds its `subject`, or `default`."""

    subject: int
    cases: tuple[tuple[tuple[Literal, ...], "Block"], ...]
    default: "Block"
    outputs: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class EachStep:
    """Walk lists side by side: the items of all rows form one group in which `body` runs.

    `body.params` take one item of each iterable. With `filtered` the last of `body.results` says
    which items are kept. `result_types` are the types of the outputs (for empty ones), and `sizes`
    says where names in them are found: the length of axis `axis` of slot `slot`.
    """

    iterables: tuple[int, ...]
    body: "Block"
    filtered: bool
    outputs: tuple[int, ...]
    result_types: tuple[Type, ...]
    place: Place
    sizes: tuple[tuple[DimVar, int, int], ...] = ()  # name, slot, axis


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Run `body` again and again, at most `maximum` times a row, with what it carries.

    `body.params` take the carried values and `body.results` give the next ones; with `stops` the
    last of them says which rows have had their last turn. Outputs are what each row carried then.
    """

    maximum: int
    carried: tuple[int, ...]
    body: "Block"
    stops: bool
    outputs: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class TryStep:
    """Rows that fail in `body`, or take longer than `within` seconds, go through `orelse`."""

    body: "Block"
    orelse: "Block"
    within: float | None
    outputs: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class TogetherStep:
    """Run blocks that do not need each other at once, for all rows. `outputs` are the results of
    each, in their order. Nothing in them emits."""

    blocks: tuple["Block", ...]
    outputs: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class SpreadStep:
    """Run one of some blocks for all rows, which do the same on different devices: a block of
    share 2 is taken twice as often as one of share 1."""

    blocks: tuple["Block", ...]
    shares: tuple[int, ...]
    outputs: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class EmitStep:
    """Send one response, a value for each result of the pipeline, and go on."""

    inputs: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class TransferStep:
    """Copy a slot's values to a device's memory ("cpu", "sim", "gpu:0"), mostly from `origin`."""

    source: int
    target: int
    device: str
    place: Place
    origin: str = "cpu"  # nothing runs by it


@dataclass(frozen=True, slots=True)
class CheckStep:
    """Dimensions that two stages must agree on, compared for every row.

    `sizes` says where each name in `check` is found: the length of axis `axis` of slot `slot`.
    """

    check: Check
    sizes: tuple[tuple[DimVar, int, int], ...]  # name, slot, axis
    stage: str  # whom to blame
    place: Place


Step: TypeAlias = (
    CallStep
    | BranchStep
    | SwitchStep
    | EachStep
    | LoopStep
    | TryStep
    | TogetherStep
    | SpreadStep
    | EmitStep
    | TransferStep
    | CheckStep
)


@dataclass(frozen=True, slots=True)
class Block:
    """Steps over `slots` registers. `captures` are (slot outside, slot inside) pairs;
    `constants` are (slot, literal, type). `last_uses[i]` lists the slots free after step i.
    `names` has what the source calls the value of each slot, "" for literals; nothing runs by
    them."""

    params: tuple[int, ...]
    captures: tuple[tuple[int, int], ...]
    constants: tuple[tuple[int, Literal, Type], ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    slots: int
    last_uses: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] = ()
