"""Puts steps that do not need each other into arms that run at once.

    a = slow(x)                 a, b = together
    b = slower(x)     becomes       slow(x)
    c = both(a, b)              and
                                    slower(x)
                                c = both(a, b)

`arms.py` finds the arms, `arm_cost.py` says which of them are worth a hop to another thread: each
holds a model, a function, or a `for`, `if`, ... with one in it. Functions that are not `pure` keep
the order in which they are written, so no two of them run at once; what emits runs alone, after all
that is written before it and before all that follows. Nothing is computed twice.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..arm_cost import ArmCost, holds_call
from ..arms import Arm, Fork, find_forks
from ..block_uses import Uses
from ..graph import Constant, Emit, Graph, Node, Region, Together, Value
from ..graph_pass import Declined, Pass, PassContext, PassResult, Phase
from ..memory import plan_memory
from ..rewrite import Substitution, is_pure, rebuilt, walk
from ..stage_settings import calls_out


def run(graph: Graph, context: PassContext) -> PassResult:
    finding = _Finding(graph, ArmCost(graph, context.models))
    body = finding.region(graph.body)
    declined = tuple(finding.declined)
    if body is graph.body:
        return PassResult(graph, False, declined)
    changed = replace(graph, body=body)
    device = _over_budget(graph, changed)
    if device is not None:
        reason = (
            f"nothing runs at once: it would take more memory of {device} than the schedule has"
        )
        return PassResult(graph, False, (*declined, Declined("together", reason, graph.span)))
    return PassResult(changed, True, declined)


def _over_budget(before: Graph, after: Graph) -> str | None:
    """Return a device of which the graph `after` needs more than its budget, and `before` not."""
    if not before.settings.memory:
        return None
    one, other = (
        {
            one.device
            for one in plan_memory(graph)
            if one.budget is not None and one.peak > one.budget
        }
        for graph in (before, after)
    )
    return min(other - one, default=None)


class _Finding:
    """One walk over a graph, which rebuilds its regions."""

    def __init__(self, graph: Graph, cost: ArmCost) -> None:
        self.graph, self.cost = graph, cost
        self.uses = Uses(graph.body)
        self.stands = Substitution()
        self.declined: list[Declined] = []
        self._heavy: dict[Node, bool] = {}

    def region(self, region: Region) -> Region:
        """Return the region with arms where they pay."""
        block = _Block(self, region)
        nodes: list[Node] = []
        stretch: list[Node] = []
        for node in region.nodes:
            if _emits(node):
                nodes += [*block.stretch(stretch), self.node(node)]
                stretch = []
            else:
                stretch.append(node)
        nodes += block.stretch(stretch)
        return rebuilt(region, nodes, self.stands.values(region.results))

    def node(self, node: Node) -> Node:
        return self.stands.node(node, tuple(map(self.region, node.regions)))

    def is_heavy(self, node: Node) -> bool:
        """Whether a node may be worth a hop to another thread."""
        if node not in self._heavy:
            self._heavy[node] = calls_out(node) or any(map(holds_call, node.regions))
        return self._heavy[node]

    def is_worth(self, nodes: Sequence[Node]) -> bool:
        why = self.cost.too_small(nodes)
        if why is not None:
            reason = f"`{nodes[0].stage}` does not run beside others: it takes {why}"
            self.declined.append(Declined(nodes[0].stage, reason, nodes[0].span))
        return why is None


class _Block:
    """What the nodes of one region read."""

    def __init__(self, finding: _Finding, region: Region) -> None:
        self.finding = finding
        self.read_by = finding.uses.of(region).read_by
        self.results = set(region.results)
        self.readers: dict[Value, list[Node]] = {}
        for node, values in self.read_by.items():
            for value in values:
                self.readers.setdefault(value, []).append(node)

    def stretch(self, nodes: Sequence[Node]) -> list[Node]:
        """Return what becomes of nodes between which nothing is emitted."""
        finding = self.finding
        if sum(map(finding.is_heavy, nodes)) < 2:
            return list(map(finding.node, nodes))
        constants = [node for node in nodes if isinstance(node.kind, Constant)]
        others = [node for node in nodes if not isinstance(node.kind, Constant)]
        needs = self._needs(others)
        forks = find_forks(others, needs, finding.is_heavy, finding.is_worth)
        if not forks:
            return list(map(finding.node, nodes))
        return [*constants, *self._arranged(others, forks, needs)]

    def _needs(self, nodes: Sequence[Node]) -> dict[Node, list[Node]]:
        """Return what must have run before each node: opaque ones run as they are written."""
        makers = {value: node for node in nodes for value in node.outputs}
        needs: dict[Node, list[Node]] = {}
        behind: dict[Node, int] = {}  # the last opaque node that a node reads something of
        opaque: list[Node] = []
        for node in nodes:
            made = (makers[value] for value in self.read_by[node] if value in makers)
            # What is checked of the sizes that a node gives is read of the node itself.
            needs[node] = [one for one in dict.fromkeys(made) if one is not node]
            behind[node] = max((behind[one] for one in needs[node]), default=-1)
            if is_pure(self.finding.graph, node):
                continue
            if opaque and behind[node] < len(opaque) - 1:
                needs[node].append(opaque[-1])
                self._note_order(opaque[-1], node)
            behind[node] = len(opaque)
            opaque.append(node)
        return needs

    def _note_order(self, first: Node, second: Node) -> None:
        if self.finding.is_heavy(first) and self.finding.is_heavy(second):
            reason = (
                f"`{second.stage}` waits for `{first.stage}`: functions that are not `pure` run "
                "one after the other, as they are written"
            )
            self.finding.declined.append(Declined(second.stage, reason, second.span))

    def _arranged(
        self, nodes: Sequence[Node], forks: Sequence[Fork], needs: dict[Node, list[Node]]
    ) -> list[Node]:
        """Return nodes with forks in place of their arms, as they are written where that can be."""
        item: dict[Node, Node | Fork] = {node: node for node in nodes}
        for fork in forks:
            item.update({node: fork for arm in fork.arms for node in arm.nodes})
        first: dict[Node | Fork, int] = {}
        waits: dict[Node | Fork, set[Node | Fork]] = {}
        followers: dict[Node | Fork, list[Node | Fork]] = {}
        for index, node in enumerate(nodes):
            own = item[node]
            first.setdefault(own, index)
            waiting = waits.setdefault(own, set())
            for before in (item[one] for one in needs[node] if one in item):
                if before is not own and before not in waiting:
                    waiting.add(before)
                    followers.setdefault(before, []).append(own)
        ready = [(index, one) for one, index in first.items() if not waits[one]]
        heapq.heapify(ready)
        made: list[Node] = []
        while ready:
            _, one = heapq.heappop(ready)
            made.append(self._fork(one, needs) if isinstance(one, Fork) else self.finding.node(one))
            for following in followers.get(one, ()):
                waits[following].discard(one)
                if not waits[following]:
                    heapq.heappush(ready, (first[following], following))
        return made

    def _fork(self, fork: Fork, needs: dict[Node, list[Node]]) -> Node:
        regions: list[Region] = []
        outputs: list[Value] = []
        for arm in fork.arms:
            nodes = self._arranged(arm.nodes, arm.forks, needs)
            given = self._given(arm)
            regions.append(Region((), tuple(nodes), self.finding.stands.values(given)))
            for value in given:
                output = replace(value)
                self.finding.stands.put(value, output)
                outputs.append(output)
        span = next(node.span for node in fork.arms[0].nodes if self.finding.is_heavy(node))
        return Node(Together(), (), tuple(outputs), span, "together", tuple(regions))

    def _given(self, arm: Arm) -> list[Value]:
        """Return what is read outside of an arm of what is made in it."""
        own = set(arm.nodes)
        return [
            value
            for node in arm.nodes
            for value in node.outputs
            if value in self.results or any(one not in own for one in self.readers.get(value, ()))
        ]


def _emits(node: Node) -> bool:
    inside: Iterable[Node] = (inner for region in node.regions for inner in walk(region))
    return isinstance(node.kind, Emit) or any(isinstance(one.kind, Emit) for one in inside)


PASS = Pass("run_together", Phase.OVERLAP, run)
