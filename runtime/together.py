"""Blocks that do not need each other: a request that may wait in several places at once."""

from .flow import Block, Fork, Group, Walk
from .rows import Rows


class Together:
    """Runs `blocks` at once, for all rows; `outputs` are the results of each, in their order."""

    __slots__ = ("_blocks", "_outputs")

    def __init__(self, blocks: tuple[Block, ...], outputs: tuple[int, ...]) -> None:
        self._blocks, self._outputs = blocks, outputs

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        if len(self._blocks) == 1:  # what the others gave is not wanted
            results = yield from self._blocks[0].run((), slots, group, None)
        else:
            flows = [block.run((), slots, group, None) for block in self._blocks]
            results = yield Fork(flows, group)
        for slot, column in zip(self._outputs, results, strict=True):
            slots[slot] = column
