"""Instances on several devices: the pipeline is laid out once for each device, as a *lane*.

    read { instances = [2 * gpu(0), gpu(1)] }     lane 1, of share 2:  read on gpu:0, 2 instances
                                                  lane 2, of share 1:  read on gpu:1

A request takes one lane and stays there, so its values never leave a device for the sake of the
other, every copy is in the plan, and what no schedule spreads is one stage for all lanes. Where
stages name different numbers of devices, there are as many lanes as bring every device of each
equally often.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .graph import Graph, StageSettings
from .plan import Block, MemoryPlan, Place, SpreadStep


@dataclass(frozen=True, slots=True)
class Lane:
    """A pipeline with every stage on one device; of `share` requests for each one of a lane of 1.
    `title` says what is where, "" where there is nothing to say."""

    graph: Graph
    share: int = 1
    title: str = ""


def lanes_of(graph: Graph) -> tuple[Lane, ...]:
    """Return the lanes of a pipeline; one, the pipeline as it is, where no stage is spread."""
    spread = {name: one for name, one in graph.settings.stages if one.spread}
    if not spread:
        return (Lane(graph),)
    count = lanes_for([len(one.spread) for one in spread.values()])
    return tuple(_lane(graph, spread, number, count) for number in range(count))


def lanes_for(devices: Sequence[int]) -> int:
    """Return how many lanes there are for stages on so many devices each."""
    return math.lcm(*devices)


def _lane(graph: Graph, spread: dict[str, StageSettings], number: int, count: int) -> Lane:
    taken = {name: one.spread[number % len(one.spread)] for name, one in spread.items()}
    stages = tuple(
        (name, replace(one, spread=(), device=taken[name][0], instances=taken[name][1]))
        if name in taken
        else (name, one)
        for name, one in graph.settings.stages
    )
    listed = ", ".join(f"{name} on {device}" for name, (device, _) in taken.items())
    share = min(instances for _, instances in taken.values())
    title = f"lane {number + 1} of {count}, share {share}: {listed}"
    return Lane(replace(graph, settings=replace(graph.settings, stages=stages)), share, title)


def spread_block(bodies: Sequence[Block], shares: Sequence[int], place: Place) -> Block:
    """Return the block that runs one of some bodies, which take and give the same."""
    first = bodies[0]
    given, made = len(first.params), len(first.results)
    params, outputs = tuple(range(given)), tuple(range(given, given + made))
    arms = tuple(
        replace(body, params=(), captures=tuple(zip(params, body.params, strict=True)))
        for body in bodies
    )
    slots = (*first.params, *first.results)
    names = tuple(first.names[slot] for slot in slots) if first.names else ()
    step = SpreadStep(arms, tuple(shares), outputs, place)
    return Block(params, (), (), (step,), outputs, given + made, (params,), names)


def most_memory(lanes: Sequence[Sequence[MemoryPlan]]) -> tuple[MemoryPlan, ...]:
    """Return what a request may take on each device: that of the lane which takes most there."""
    found: dict[str, MemoryPlan] = {}
    for one in (memory for lane in lanes for memory in lane):
        other = found.get(one.device)
        if other is None or one.peak > other.peak:
            found[one.device] = one
    return tuple(found[device] for device in sorted(found))
