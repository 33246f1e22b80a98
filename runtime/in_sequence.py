"""The walk of a request of a sequence: it takes control values and states behind its inputs.

A state that is kept on a device is there already, but for the first one and one that another engine
has left: the copy is a work like any other, and is no copy where there is nothing to move. So is
what gives a state that is a row of a batch memory of its own, lest it keep all of the batch's.
"""

from collections.abc import Callable, Sequence

from ..compiler.plan import PipelinePlan
from ..dsl.types import Field
from ..stdlib.op import Item
from .flow import Block, Flow, Group, Work
from .literals import literal_item
from .request import InSequence
from .rows import Rows
from .seats import Seat, seated
from .sequences import States
from .stage import Stage


def first_of(pipeline: PipelinePlan) -> InSequence:
    """Return what a request says that begins a sequence, whose id is as the pipeline reads it."""
    numbered = any(one.name == "number" for one in pipeline.controls)
    return InSequence(1 if numbered else "first", start=True)


def initial_states(pipeline: PipelinePlan) -> States:
    """Return what the first request of a sequence begins with."""
    return [literal_item(one.initial, one.field.type) for one in pipeline.states]


def walk_in_sequence(
    pipeline: PipelinePlan,
    block: Block,
    columns: Sequence[Rows],
    sequence: InSequence,
    begin: Callable[[], tuple[States, int | None]],
    transfer: Callable[[str], Stage],
    group: Group,
) -> Flow:
    """Return the walk of a request, which calls `begin` for its states, and the number of its place
    where it has one, when it begins."""
    states, place = begin()
    arguments = [*columns]
    arguments += [Rows.one(_control(one, sequence)) for one in pipeline.controls]
    for state, value in zip(pipeline.states, states, strict=True):
        kept = Rows.one(value)
        if state.device != "cpu":
            (kept,) = yield Work(transfer(state.device), [kept], group, pipeline.place)
        arguments.append(kept)
    walk = block.start(arguments, group)
    results = yield from walk if place is None else seated(walk, Seat(place))
    for index, state in enumerate(pipeline.states, len(results) - len(pipeline.states)):
        if state.device != "cpu":
            work = Work(transfer(state.device), [results[index]], group, pipeline.place)
            (results[index],) = yield work
    return results


def _control(field: Field, sequence: InSequence) -> Item:
    match field.name:
        case "start":
            value = sequence.start
        case "end":
            value = sequence.end
        case "ready":
            value = True
        case "id" | "number":
            value = sequence.id
        case name:
            raise AssertionError(f"`sequence.{name}` is no control value")
    return literal_item(value, field.type)
