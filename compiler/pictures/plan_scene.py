"""A plan to the scene of its picture: what runs, where, in what company, and how long it took."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import assert_never

from ...dsl.types import Type
from ...stdlib.op import Literal
from ..plan import (
    Block,
    BranchStep,
    CallStep,
    CheckStep,
    EachStep,
    EmitStep,
    LoopStep,
    ModelSegment,
    OpSegment,
    PipelinePlan,
    Plan,
    PythonSegment,
    Segment,
    SpreadStep,
    Step,
    SwitchStep,
    TogetherStep,
    TransferStep,
    TryStep,
)
from ..plan_text import copies_text, literal_text, peak_text
from ..plan_walk import crossings_of, segments_of
from ..policy_text import describe_batching, describe_pipeline, describe_segment
from ..profile import Profile, gain_text, seconds_text
from .scene import Card, Frame, Item, Look, Scene
from .sketch import Part, Sketch, Words, shortened, types_of, wrapped


def plan_scene(title: str, plan: Plan, names: Sequence[str], profile: Profile | None) -> Scene:
    """Return the picture of the pipelines `names` of a plan, with figures when there are some."""
    sketch = Sketch()
    frames = tuple(
        _Drawing(plan, plan.pipeline(name), profile, sketch, count()).frame() for name in names
    )
    return Scene(title, frames, sketch.wires())


@dataclass(slots=True)
class _Drawing:
    """One walk over a pipeline's blocks, which are numbered as they are reached."""

    plan: Plan
    pipeline: PipelinePlan
    profile: Profile | None
    sketch: Sketch
    numbers: Iterator[int]

    def frame(self) -> Frame:
        pipeline = self.pipeline
        number, items = next(self.numbers), list[Item]()
        body, kept = pipeline.body, len(pipeline.states)
        for slot, parameter in zip(body.params, pipeline.parameters, strict=False):
            kind, default = parameter.field.type, parameter.default
            given = (
                (shortened(f"= {literal_text(default, kind)}"),) if parameter.has_default else ()
            )
            card = Card(Look.INPUT, parameter.field.name, (str(kind), *given))
            items.append(self.sketch.card(card, (), {(number, slot): str(parameter.field)}))
        for slot, told in zip(
            body.params[len(pipeline.parameters) :], pipeline.controls, strict=False
        ):
            card = Card(Look.INPUT, f"sequence.{told.name}", (str(told.type),))
            items.append(self.sketch.card(card, (), {(number, slot): str(told)}))
        for slot, state in zip(
            body.params[len(body.params) - kept :], pipeline.states, strict=True
        ):
            card = Card(Look.INPUT, f"state {state.field.name}", (str(state.field.type),))
            items.append(self.sketch.card(card, (), {(number, slot): str(state.field)}))
        items += self._block(body, number, None)
        for slot, state in zip(
            body.results[len(body.results) - kept :], pipeline.states, strict=True
        ):
            card = Card(Look.OUTPUT, f"next {state.field.name}", (str(state.field.type),))
            items.append(self.sketch.card(card, [(number, slot)], {}))
        given = body.results[: len(body.results) - kept]  # nothing in a stream
        for slot, result in zip(given, pipeline.results, strict=False):
            card = Card(Look.OUTPUT, result.name, (str(result.type),))
            items.append(self.sketch.card(card, [(number, slot)], {}))
        return Frame(
            f"pipeline {pipeline.name}", tuple(items), self._summary(), str(pipeline.place)
        )

    def _summary(self) -> tuple[str, ...]:
        pipeline = self.pipeline
        said = [f"batch {pipeline.batch}"] if pipeline.batch is not None else []
        if pipeline.deadline is not None:
            said.append(f"deadline {seconds_text(pipeline.deadline)}")
        if pipeline.idle is not None:
            said.append(f"per sequence, idle {seconds_text(pipeline.idle)}")
        said += describe_pipeline(pipeline.queueing, pipeline.priority, pipeline.sequencing)
        called = (self.plan.segments[one] for one in segments_of(pipeline.body))
        segments = sum(not isinstance(one, OpSegment) for one in called)
        figures = [f"segments {segments}", copies_text(crossings_of(pipeline.body))]
        memory = [one for one in self.plan.memory if one.pipeline == pipeline.name]
        figures += [
            f"peak {peak_text(one, alone=len(memory) == 1)}"
            for one in memory
            if one.peak or one.budget is not None
        ]
        return tuple(" · ".join(line) for line in (said, figures) if line)

    def _block(self, block: Block, number: int, around: int | None) -> list[Item]:
        """Return the cards of a block; `around` is the number of the block that holds it."""
        for slot, literal, kind in block.constants:
            self.sketch.literal((number, slot), literal_text(literal, kind))
        for outer, inner in block.captures:
            self.sketch.alias((number, inner), (around, outer))
        return [self._step(step, number) for step in block.steps]

    def _step(self, step: Step, number: int) -> Item:
        def keys(slots: Iterable[int]) -> list[Hashable]:
            return [(number, slot) for slot in slots]

        def part(heading: str, block: Block) -> Part:
            inner = next(self.numbers)
            return Part(
                heading,
                {(inner, slot): "" for slot in block.params},
                partial(self._block, block, inner, number),
                [(inner, slot) for slot in block.results],
            )

        details = f"{step.place}\n{step.place.text.strip()}"
        match step:
            case CallStep():
                segment = self.plan.segments[step.segment]
                types = _results(segment)
                said = map(str, types)
                outputs = dict(zip(keys(step.outputs), said, strict=True))
                return self.sketch.card(self._card(segment, details), keys(step.inputs), outputs)
            case TransferStep():
                card = Card(
                    Look.COPY, f"copy to {step.device}", device=step.device, details=details
                )
                outputs = dict.fromkeys(keys([step.target]), "")
                return self.sketch.card(card, keys([step.source]), outputs)
            case CheckStep():
                card = Card(Look.CHECK, shortened(step.check.text), (step.stage,), details=details)
                return self.sketch.card(card, keys(slot for _, slot, _ in step.sizes), {})
            case EmitStep():
                card = Card(Look.OUTPUT, "emit", details=details)
                return self.sketch.card(card, keys(step.inputs), {})
            case BranchStep():
                words = Words("if", "if", "either", details, True)
                inputs, types = [step.condition], ()
                parts = [part("then", step.then), part("else", step.orelse)]
            case SwitchStep():
                words = Words("match", "match", "either", details, True)
                inputs, types = [step.subject], ()
                parts = [part(f"case {_case(case)}", block) for case, block in step.cases]
                parts.append(part("else", step.default))
            case EachStep():
                end = "those kept" if step.filtered else "all of them"
                words = Words("for", "each", end, details, False)
                inputs, types = step.iterables, step.result_types
                parts = [part("", step.body)]
            case LoopStep():
                words = Words("loop", "again", "in the end", details, False)
                inputs, types = [step.maximum, *step.carried], ()
                parts = [part("", step.body)]
            case TryStep():
                limit = "" if step.within is None else f" within {seconds_text(step.within)}"
                words = Words("try", f"try{limit}", "either", details, True)
                inputs, types = [], ()
                parts = [part("body", step.body), part("else", step.orelse)]
            case TogetherStep():
                words = Words("together", "at once", "all of them", details, True)
                inputs, types = [], ()
                parts = [part(f"arm {i}", block) for i, block in enumerate(step.blocks, 1)]
            case SpreadStep():
                words = Words("spread", "one lane", "either", details, True)
                inputs, types = [], ()
                shares = enumerate(zip(step.blocks, step.shares, strict=True), 1)
                parts = [part(f"lane {i}, share {share}", block) for i, (block, share) in shares]
            case _:
                assert_never(step)
        outputs = dict.fromkeys(keys(step.outputs), "")
        return self.sketch.control(words, keys(inputs), outputs, types, parts)

    def _card(self, segment: Segment, details: str) -> Card:
        types = types_of(_results(segment))
        match segment:
            case OpSegment():
                lines = (types, *self._took(segment.name))
                return Card(Look.OP, segment.name, lines, details=details)
            case PythonSegment():
                where = shortened(f"python · {segment.file}:{segment.attribute}")
                lines = (where, types, *_policy(segment), *self._took(segment.name))
                batches, details = segment.batching is not None, f"{details}\n{segment.signature}"
                look = Look.MODEL if segment.is_class else Look.FUNCTION
                return Card(look, segment.name, lines, "cpu", batches, details)
            case ModelSegment():
                members = wrapped(segment.members) if len(segment.members) > 1 else ()
                what = (segment.backend, *members)
                policy, took = _policy(segment), self._took(segment.name)
                lines = (*what, types, *policy, *self._measured(segment), *took)
                batches, details = segment.batching is not None, f"{details}\n{segment.signature}"
                return Card(Look.MODEL, segment.name, lines, segment.device, batches, details)
            case _:
                assert_never(segment)

    def _measured(self, segment: ModelSegment) -> tuple[str, ...]:
        times = self.profile and self.profile.model(segment.model, segment.device)
        if times is None:
            return ()
        said = [f"{seconds_text(times.alone)} a row"]
        said += [f"batching {gain_text(times)}"] if segment.stackable else []
        return tuple(said)

    def _took(self, stage: str) -> tuple[str, ...]:
        if self.profile is None:
            return ()
        took = (one for one in self.profile.of(self.pipeline.name) if one.stage == stage)
        return tuple(f"took {seconds_text(one.seconds)} for {_rows(one.rows)}" for one in took)


def _results(segment: Segment) -> Sequence[Type]:
    if isinstance(segment, OpSegment):
        return segment.results
    return [field.type for field in segment.signature.results]


def _policy(segment: ModelSegment | PythonSegment) -> tuple[str, ...]:
    """Return where rows meet, in lines that a card has room for."""
    lines: list[str] = []
    if segment.batching is not None:
        lines.append(shortened(describe_batching(segment.batching)))
    elif isinstance(segment, ModelSegment) and segment.group > 1:
        lines.append(f"rows of a request, up to {segment.group}")
    return (*lines, *map(shortened, describe_segment(segment)))


def _case(case: tuple[Literal, ...]) -> str:
    return shortened(" | ".join(literal_text(literal) for literal in case))


def _rows(rows: int) -> str:
    return f"{rows} row{'' if rows == 1 else 's'}"
