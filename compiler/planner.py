"""Placed graphs to a plan: values become numbered slots, calls become segments, regions blocks.

Steps stand in the order of the region. A block takes what it uses of the blocks around it as
captures, except literals: each block has its own. Equal segments of all pipelines are one, so
that a model used twice is loaded once; their dimensions are numbered anew to make them equal.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, assert_never

from ..dsl.types import DimVar, Field
from .block_uses import BlockUses, Uses
from .graph import (
    Check,
    Constant,
    Emit,
    For,
    FunctionCall,
    Graph,
    If,
    Loop,
    Match,
    ModelCall,
    Node,
    OpCall,
    Region,
    Together,
    Transfer,
    Try,
    Value,
)
from .known_sizes import SizeSource
from .places import place_of
from .plan import (
    Block,
    BranchStep,
    CallStep,
    CheckStep,
    Declined,
    EachStep,
    EmitStep,
    LoopStep,
    Parameter,
    PipelinePlan,
    StateVariable,
    Step,
    SwitchStep,
    TogetherStep,
    TransferStep,
    TryStep,
)
from .plan import Check as PlannedCheck
from .segments import Segments

Sizes: TypeAlias = tuple[tuple[DimVar, int, int], ...]
"""Where names of dimensions are found: name, slot, axis."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A pipeline's plan, and the checks that no value at run time can decide."""

    pipeline: PipelinePlan
    declined: tuple[Declined, ...]


def plan_pipeline(graph: Graph, segments: Segments, directory: Path) -> Planned:
    """Return the plan of one placed pipeline; its segments are added to `segments`.

    Places name files relative to `directory`, so that a plan does not tell where it was made.
    """
    planning = _Planning(graph, segments, directory)
    body = planning.block(graph.body, {})
    params, results = _served(graph)
    settings = graph.settings
    pipeline = PipelinePlan(
        name=graph.called or graph.name,
        parameters=tuple(
            Parameter(field, known, literal)
            for field, (known, literal) in zip(params, graph.defaults, strict=True)
        ),
        results=results,
        body=body,
        batch=graph.batch,
        deadline=graph.deadline,
        queueing=settings.queueing,
        place=place_of(graph.span, directory),
        stream=graph.stream,
        states=tuple(StateVariable(one.field, one.initial, one.device) for one in graph.states),
        idle=graph.idle,
        controls=graph.controls,
        priority=graph.settings.priority,
        sequencing=graph.settings.sequencing,
    )
    declined = tuple(
        Declined(
            graph.called or graph.name,
            "plan",
            node.stage,
            f"`{check.text}` is not compared: no shape tells what one of its sizes is",
            place_of(node.span, directory),
        )
        for node, check in planning.uses.unchecked
    )
    return Planned(pipeline, declined)


def _served(graph: Graph) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Return parameters and results by the names that callers have for them."""
    params, results = graph.signature.params, graph.signature.results
    if not graph.outside:
        return params, results
    names = iter(graph.outside)
    renamed = [Field(next(names), field.type) for field in (*params, *results)]
    return tuple(renamed[: len(params)]), tuple(renamed[len(params) :])


class _Planning:
    """One walk over a graph."""

    def __init__(self, graph: Graph, segments: Segments, directory: Path) -> None:
        self.graph, self.segments, self.directory = graph, segments, directory
        self.uses = Uses(graph.body)

    def block(self, region: Region, around: dict[Value, int]) -> Block:
        """Return the block of a region; `around` gives the slots of the block that holds it."""
        uses = self.uses.of(region)
        slots: dict[Value, int] = {}

        def take(values: Iterable[Value]) -> tuple[int, ...]:
            return tuple(slots.setdefault(value, len(slots)) for value in values)

        params = take(region.params)
        inside, literals = take(uses.captured), take(uses.constants)
        captures = tuple((around[v], slot) for v, slot in zip(uses.captured, inside, strict=True))
        constants = tuple(
            (slot, kind.literal, value.type)
            for (value, kind), slot in zip(uses.constants.items(), literals, strict=True)
        )
        steps: list[Step] = []
        last: dict[int, int] = {}  # slot to the step that reads it last
        for node in region.nodes:
            if isinstance(node.kind, Constant):
                continue
            outputs = take(node.outputs)
            before, after = self._checks(node, uses, slots)
            sizes = _found(uses.sizes.get(node, ()), slots)
            steps += [*before, self._step(node, slots, outputs, sizes), *after]
            read = (slots[v] for v in uses.read_by[node] if v not in uses.constants)
            last.update(dict.fromkeys((*outputs, *read), len(steps) - 1))
        results = tuple(slots[value] for value in region.results)
        freed: list[list[int]] = [[] for _ in steps]
        for slot, step in sorted(last.items()):
            if slot not in results:
                freed[step].append(slot)
        return Block(
            params,
            captures,
            constants,
            tuple(steps),
            results,
            len(slots),
            tuple(map(tuple, freed)),
            tuple("" if value in uses.constants else value.name for value in slots),
        )

    def _step(
        self, node: Node, slots: dict[Value, int], outputs: tuple[int, ...], sizes: Sizes
    ) -> Step:
        inputs = tuple(slots[value] for value in node.inputs)
        place = place_of(node.span, self.directory)
        blocks = tuple(self.block(region, slots) for region in node.regions)
        match node.kind:
            case OpCall() | ModelCall() | FunctionCall():
                segment = self.segments.add(self.graph, node, self.directory)
                return CallStep(segment, inputs, outputs, place)
            case If():
                return BranchStep(inputs[0], blocks[0], blocks[1], outputs, place)
            case Match(cases=cases):
                arms = tuple(zip(cases, blocks[:-1], strict=True))
                return SwitchStep(inputs[0], arms, blocks[-1], outputs, place)
            case For(filtered=filtered):
                types = tuple(value.type for value in node.outputs)
                return EachStep(inputs, blocks[0], filtered, outputs, types, place, sizes)
            case Loop(stops=stops):
                return LoopStep(inputs[0], inputs[1:], blocks[0], stops, outputs, place)
            case Try(within=within):
                return TryStep(blocks[0], blocks[1], within, outputs, place)
            case Together():
                return TogetherStep(blocks, outputs, place)
            case Emit():
                return EmitStep(inputs, place)
            case Transfer(device=device, origin=origin):
                return TransferStep(inputs[0], outputs[0], device, place, origin)
            case Constant():
                raise AssertionError("a literal is no step")
            case _:
                assert_never(node.kind)

    def _checks(
        self, node: Node, uses: BlockUses, slots: dict[Value, int]
    ) -> tuple[list[Step], list[Step]]:
        """Return what can be compared before a node runs, and what only after."""
        place = place_of(node.span, self.directory)
        before: list[Step] = []
        after: list[Step] = []
        for check, sizes in uses.checks.get(node, ()):
            found = _found(sizes, slots)
            made = any(size.value in node.outputs for size in sizes)
            (after if made else before).append(CheckStep(planned(check), found, node.stage, place))
        return before, after


def _found(sizes: Iterable[SizeSource], slots: dict[Value, int]) -> Sizes:
    return tuple((size.name, slots[size.value], size.axis) for size in sizes)


def planned(check: Check) -> PlannedCheck:
    return PlannedCheck(check.left, check.op, check.right, check.text)
