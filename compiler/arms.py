"""Which nodes of a region need not wait for each other, sorted into arms that may run at once.

Only *heavy* nodes make arms: those that take long enough for another thread to be worth while.
Each stands on a level, one above the highest that it needs. From a level on, as many levels are
taken together as leave more than one part that is not connected; those parts are the arms, and
within an arm the same is done again:

    level 1   a   c          arms [a, b] and [c, d]; then e
    level 2   b   d          (not [a] and [c], then [b] and [d]: b does not wait for c)
    level 3    \\ /
                e

Any other node goes into the arm that alone needs it, or that alone gives it what it reads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .graph import Node

Needs: TypeAlias = Mapping[Node, Sequence[Node]]
"""The nodes of the same region that must have run before a node."""

Worth: TypeAlias = Callable[[Sequence[Node]], bool]
"""Whether heavy nodes, run one after the other, take longer than their way to another thread."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Nodes in the order in which they are written, and what of them runs at once in turn."""

    nodes: tuple[Node, ...]
    forks: tuple["Fork", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fork:
    """Arms that run at once, in the order in which their first heavy nodes are written."""

    arms: tuple[Arm, ...]


def find_forks(
    nodes: Sequence[Node], needs: Needs, heavy: Callable[[Node], bool], worth: Worth
) -> tuple[Fork, ...]:
    """Return what of the nodes, which stand in an order in which they can run, may run at once."""
    if sum(map(heavy, nodes)) < 2:
        return ()
    parts = _Parts(nodes, needs, heavy)
    forks: list[Fork] = []
    for window in parts.windows():
        arms = [arm for arm in window if worth([node for node in arm if heavy(node)])]
        inner = [find_forks(arm, needs, heavy, worth) for arm in arms]
        if len(arms) > 1:
            found = zip(arms, inner, strict=True)
            forks.append(Fork(tuple(Arm(tuple(arm), within) for arm, within in found)))
        elif arms:
            forks += inner[0]
    return tuple(forks)


@dataclass(frozen=True, slots=True)
class _Place:
    """An arm: number `part` (None: more than one) of the window `window`."""

    window: int
    part: int | None


class _Parts:
    """One look at some nodes. Windows are runs of levels, numbered from 1."""

    def __init__(self, nodes: Sequence[Node], needs: Needs, heavy: Callable[[Node], bool]) -> None:
        own = set(nodes)
        self.nodes = nodes
        self.needs = {node: [one for one in needs[node] if one in own] for node in nodes}
        self.heavy = {node for node in nodes if heavy(node)}
        self.level: dict[Node, int] = {}
        self.levels: list[list[Node]] = [[]]  # heavy nodes first, as nothing on their level is read
        for node in nodes:
            level = max((self.level[one] for one in self.needs[node]), default=0)
            level += node in self.heavy
            self.level[node] = level
            if level == len(self.levels):
                self.levels.append([])
            self.levels[level].append(node)
        for level in self.levels:
            level.sort(key=lambda node: node not in self.heavy)

    def windows(self) -> list[list[list[Node]]]:
        """Return the parts of each window that has several, with other nodes that are theirs."""
        place: dict[Node, _Place] = {}
        number, start = 0, 1
        several: list[int] = []
        while start < len(self.levels):
            stop = self._stop(start)
            parts = self._connected(start, stop)
            number += 1
            for index, part in enumerate(parts):
                place.update(dict.fromkeys(part, _Place(number, index)))
            several += [number] if len(parts) > 1 else []
            start = stop
        self._place_others(place)
        found: dict[int, dict[int, list[Node]]] = {number: {} for number in several}
        for node in self.nodes:
            at = place.get(node)
            if at is not None and at.window in found and at.part is not None:
                found[at.window].setdefault(at.part, []).append(node)
        return [[parts[index] for index in sorted(parts)] for parts in found.values()]

    def _stop(self, start: int) -> int:
        """Return the level behind the last that can be taken together with the one at `start`."""
        joining = _Joining(self, start)
        for level in range(start, len(self.levels)):
            if joining.add(level) < 2:
                return max(level, start + 1)
        return len(self.levels)

    def _connected(self, start: int, stop: int) -> list[list[Node]]:
        """Return the heavy nodes of some levels, sorted by what they are connected with."""
        joining = _Joining(self, start)
        for level in range(start, stop):
            joining.add(level)
        parts: dict[Node, list[Node]] = {}
        for node in self.nodes:
            if node in self.heavy and start <= self.level[node] < stop:
                parts.setdefault(joining.leader(node), []).append(node)
        return list(parts.values())

    def _place_others(self, place: dict[Node, _Place]) -> None:
        """Put nodes that are not heavy where they are needed first, else where they come from.

        Those without a place stand between the arms.
        """
        heavy = dict(place)
        needed: dict[Node, _Place] = {}
        for node in reversed(self.nodes):
            at = heavy.get(node, needed.get(node))
            if at is None:
                continue
            for one in self.needs[node]:
                before = needed.get(one)
                needed[one] = at if before is None else _merged(before, at, min)
        made: dict[Node, _Place] = {}
        for node in self.nodes:
            if node in heavy:
                made[node] = heavy[node]
                continue
            behind = [made[one] for one in self.needs[node] if one in made]
            at = needed.get(node)
            if at is None and behind:
                at = behind[0]
                for other in behind[1:]:
                    at = _merged(at, other, max)
            if at is not None:
                made[node] = at
        for node, at in made.items():
            if at.part is not None:
                place[node] = at


def _merged(one: _Place, other: _Place, choose: Callable[[int, int], int]) -> _Place:
    """Return the earlier or the later of two places, and no part where they are two of a window."""
    if one.window != other.window:
        return one if one.window == choose(one.window, other.window) else other
    return one if one == other else _Place(one.window, None)


class _Joining:
    """Heavy nodes from a level on, and which are connected by what one needs of the other."""

    def __init__(self, parts: _Parts, start: int) -> None:
        self._parts, self._start, self._count = parts, start, 0
        self._leaders: dict[Node, Node] = {}
        self._behind: dict[Node, frozenset[Node]] = {}  # heavy nodes that lead to any other node

    def add(self, level: int) -> int:
        """Take in the next level; return how many parts there are."""
        parts = self._parts
        for node in parts.levels[level]:
            found = self._of(parts.needs[node])
            if node not in parts.heavy:
                self._behind[node] = found
                continue
            self._leaders[node] = node
            self._count += 1
            for one in found:
                leader = self.leader(one)
                if leader is not self.leader(node):
                    self._leaders[self.leader(node)] = leader
                    self._count -= 1
        return self._count

    def leader(self, node: Node) -> Node:
        """Return the node that stands for all that are connected with this one."""
        while (above := self._leaders[node]) is not node:
            self._leaders[node] = self._leaders[above]
            node = above
        return node

    def _of(self, needed: Iterable[Node]) -> frozenset[Node]:
        sets = [
            frozenset((one,)) if one in self._leaders else self._behind.get(one, frozenset())
            for one in needed
        ]
        sets = [one for one in sets if one]
        return sets[0] if len(sets) == 1 else frozenset().union(*sets)
