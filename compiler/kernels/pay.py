"""Which chains save copies on which device.

A chain on the CPU costs a copy for each argument that a device has and for each result that one
wants; on a device it is the other way round. Chains that read each other are first taken to be on
the device all together, and those that save nothing go back one after the other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..graph import Graph, ModelCall, Node
from ..rewrite import Uses
from ..stage_settings import CPU, device_of
from .write import Chain


@dataclass(frozen=True, slots=True)
class Placed:
    """A chain on a device, and how many copies it saves there."""

    chain: Chain
    device: str
    saved: int


def place_chains(graph: Graph, uses: Uses, chains: Iterable[Chain]) -> tuple[Placed, ...]:
    """Return the chains that save copies, each on the device where it saves most."""
    found: list[Placed] = []
    left = list(chains)
    for device in _devices(graph, uses):
        paying = _paying(graph, uses, left, device)
        found += paying
        taken = {one.chain for one in paying}
        left = [chain for chain in left if chain not in taken]
    return tuple(found)


def _devices(graph: Graph, uses: Uses) -> tuple[str, ...]:
    homes = {device_of(graph, node) for node in uses.order if isinstance(node.kind, ModelCall)}
    return tuple(sorted(homes - {CPU}))


def _paying(graph: Graph, uses: Uses, chains: list[Chain], device: str) -> list[Placed]:
    owner = {node: chain for chain in chains for node in chain.nodes}
    there = set(chains)
    while True:
        saving = {chain: _saved(graph, uses, chain, device, owner, there) for chain in there}
        losing = {chain for chain, saved in saving.items() if saved < 1}
        if not losing:
            return [Placed(one, device, saving[one]) for one in chains if one in there]
        there -= losing


def _saved(
    graph: Graph,
    uses: Uses,
    chain: Chain,
    device: str,
    owner: Mapping[Node, Chain],
    there: set[Chain],
) -> int:
    """Return how many copies less it takes when a chain is on the device."""

    def at(node: Node | None) -> str:
        if node is None:
            return CPU
        if node in owner:
            return device if owner[node] in there else CPU
        return device_of(graph, node)

    saved, region = 0, uses.region[chain.nodes[0]]
    for value in chain.inputs:
        maker = uses.producers.get(value)
        home = at(maker) if maker is not None else CPU
        others = [one for one in uses.readers(value) if one.node not in chain.nodes]
        if home == device and all(at(one.node) == device for one in others):
            saved += 1
        # a copy that an arm beside this one needs is that arm's own
        elif home != device and all(
            at(one.node) != device for one in others if one.region is region
        ):
            saved -= 1
    for value in chain.outputs:
        others = [one for one in uses.readers(value) if one.node not in chain.nodes]
        readers = {at(one.node) for one in others}
        saved += (device in readers) - bool(readers - {device})
    return saved
