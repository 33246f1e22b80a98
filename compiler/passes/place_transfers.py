"""Puts a copy where a value is made on one device and wanted on another, as few as possible.

    y = m(x)           x2 = transfer(x) to sim
    z = m2(y)   becomes  y = m(x2)
    return z             z = m2(y)
                         z2 = transfer(z) to cpu
                         return z2

Models run on their device, everything else on the CPU, and results leave from the CPU. A state, or
what a `loop` carries, is kept on the device that reads it and makes what it becomes: it crosses
before the first turn and after the last, and not in between. Control flow moves no data: what all
arms of an `if` leave on one device stays there; where they differ, what follows decides. A copy
stands before its first use, outside of the `for` or `loop` that uses it (one copy for all items),
and within an arm when nothing outside of that one `if` or `try` needs it (no copy for an arm not
taken).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...dsl.source import Span
from ...dsl.types import DType, ListType, OptionalType, TensorType, Type
from ..graph import (
    Constant,
    For,
    Graph,
    If,
    Loop,
    Match,
    Node,
    Region,
    Transfer,
    Try,
    Value,
)
from ..graph_pass import Pass, PassContext, PassResult, Phase
from ..stage_settings import CPU, device_of

Need = tuple[Value, str]
"""A value and the device on which it is wanted, which is not where it is."""


def run(graph: Graph, _context: PassContext) -> PassResult:
    placing = _settled(graph)
    states = graph.body.params[len(graph.body.params) - len(graph.states) :]
    kept_on = tuple(placing.kept[value] for value in states)
    results = (CPU,) * (len(graph.body.results) - len(kept_on))
    body = placing.region(graph.body, {}, (*results, *kept_on))
    changed = tuple(
        replace(state, device=device) for state, device in zip(graph.states, kept_on, strict=True)
    )
    if body is graph.body and changed == graph.states:
        return PassResult(graph, False)
    return PassResult(replace(graph, body=body, states=changed), True)


def _settled(graph: Graph) -> "_Placing":
    """Return where each value is made, and the device on which each that is carried is kept: where
    it is read, if what it becomes is made there."""
    body, count = graph.body, len(graph.states)
    first = len(body.results) - count
    becomes = dict(zip(body.params[len(body.params) - count :], body.results[first:], strict=True))
    becomes |= _carried(body)
    given = [{CPU}] * first
    asking = _Placing(graph, {})
    asking.find_wants(body, [*given, *(set[str]() for _ in range(count))])
    kept = {value: _only_device(asking.wants.get(value, set()), value.type) for value in becomes}
    while True:
        placing = _Placing(graph, kept)
        states = [{kept[value]} for value in body.params[len(body.params) - count :]]
        placing.find_wants(body, [*given, *states])
        placing.settle(body)
        found = {
            value: device if placing.home[becomes[value]] == device else CPU
            for value, device in kept.items()
        }
        if found == kept:
            return placing
        kept = found


def _carried(region: Region) -> dict[Value, Value]:
    """Return what each value that a loop carries becomes at the end of a turn."""
    found: dict[Value, Value] = {}
    for node in region.nodes:
        for inner in node.regions:
            found |= _carried(inner)
            if isinstance(node.kind, Loop):
                found |= dict(zip(inner.params, inner.results, strict=False))  # `stop` is the last
    return found


class _Placing:
    """One walk over a graph. `home` says where each value is made; `kept` where what is carried
    is, of which nothing is known while there is none."""

    def __init__(self, graph: Graph, kept: dict[Value, str]) -> None:
        self.graph, self.kept = graph, kept
        self.home: dict[Value, str] = {}
        self.wants: dict[Value, set[str]] = {}
        self.constant_none: set[Value] = set()
        self._captures: dict[Node, list[Need]] = {}

    def find_wants(self, region: Region, result_wants: Sequence[set[str]]) -> None:
        """Note on which devices each value is read, from the last node to the first."""
        for value, wants in zip(region.results, result_wants, strict=True):
            self.wants.setdefault(value, set()).update(wants)
        for node in reversed(region.nodes):
            for inner in node.regions:
                self.find_wants(inner, self._result_wants(node, inner))
            for value, wants in zip(node.inputs, self._input_wants(node), strict=True):
                self.wants.setdefault(value, set()).update(wants)

    def _result_wants(self, node: Node, inner: Region) -> list[set[str]]:
        match node.kind:
            case Loop():
                kept = [self._kept(value) for value in inner.params]
                return [*kept, *([{CPU}] * (len(inner.results) - len(kept)))]
            case For():
                return [{CPU}] * len(inner.results)
            case _:
                return [self.wants.get(value, set()) for value in node.outputs]

    def _input_wants(self, node: Node) -> list[set[str]]:
        if not isinstance(node.kind, Loop):
            return [{device_of(self.graph, node)}] * len(node.inputs)
        params = node.regions[0].params
        return [{CPU}, *(self._kept(one) or self.wants.get(one, set()) for one in params)]

    def _kept(self, value: Value) -> set[str]:
        return {self.kept[value]} if value in self.kept else set()

    # ---- where values are made

    def settle(self, region: Region) -> None:
        """Find the home of every value of a region and of those in it."""
        for value in region.params:
            self.home[value] = self.kept.get(value, CPU)
        for node in region.nodes:
            for inner in node.regions:
                self.settle(inner)
            if isinstance(node.kind, Constant) and node.kind.literal is None:
                self.constant_none.update(node.outputs)
            for index, value in enumerate(node.outputs):
                self.home[value] = self._made_on(node, index)

    def _made_on(self, node: Node, index: int) -> str:
        match node.kind:
            case Transfer(device):
                return device
            case If() | Match() | Try():
                homes = {self.home[region.results[index]] for region in node.regions}
                shared = homes if len(homes) == 1 else self.wants.get(node.outputs[index], set())
                return next(iter(shared)) if len(shared) == 1 and shared <= homes else CPU
            case Loop():
                return self.kept[node.regions[0].params[index]]
            case _:
                return device_of(self.graph, node) if _moves(node.outputs[index].type) else CPU

    # ---- where they are wanted

    def _wanted(self, node: Node) -> list[Need]:
        """Return what a node itself wants elsewhere than where it is."""
        if isinstance(node.kind, Transfer):
            return []
        placed = zip(node.inputs, self._input_devices(node), strict=True)
        return [need for value, device in placed for need in self._need(value, device)]

    def _input_devices(self, node: Node) -> tuple[str, ...]:
        """Return where a node reads each of its inputs."""
        if isinstance(node.kind, Loop):
            return (CPU, *(self.kept[value] for value in node.regions[0].params))
        return (device_of(self.graph, node),) * len(node.inputs)

    def _need(self, value: Value, device: str) -> list[Need]:
        wanted = device if _moves(value.type) else CPU
        if self.home[value] == wanted or value in self.constant_none:
            return []
        return [(value, wanted)]

    def _result_devices(self, node: Node) -> tuple[str, ...]:
        """Return where the results of a node's regions are wanted."""
        match node.kind:
            case Loop(stops=stops):
                kept = tuple(self.kept[value] for value in node.regions[0].params)
                return (*kept, CPU) if stops else kept
            case For():
                return (CPU,) * len(node.regions[0].results)
            case _:
                return tuple(self.home[value] for value in node.outputs)

    def _captured(self, node: Node) -> list[Need]:
        """Return what the regions of a node want from around it; homes are settled."""
        if node not in self._captures:
            self._captures[node] = self._find_captured(node)
        return self._captures[node]

    def _find_captured(self, node: Node) -> list[Need]:
        found: dict[Need, None] = {}
        for region in node.regions:
            inside = set(region.params)
            for inner in region.nodes:
                found.update(dict.fromkeys(self._wanted(inner) + self._captured(inner)))
                inside.update(inner.outputs)
            for value, device in zip(region.results, self._result_devices(node), strict=True):
                found.update(dict.fromkeys(self._need(value, device)))
            found = {need: None for need in found if need[0] not in inside}
        return list(found)

    # ---- rebuilding

    def region(
        self, region: Region, copies: dict[Need, Value], result_devices: tuple[str, ...]
    ) -> Region:
        """Return the region with its copies; `copies` are those made around it."""
        copies = dict(copies)
        results = [
            (value, self._need(value, device))
            for value, device in zip(region.results, result_devices, strict=True)
        ]
        users = Counter(
            need for node in region.nodes for need in {*self._wanted(node), *self._captured(node)}
        )
        users.update({need for _, needs in results for need in needs})
        nodes: list[Node] = []
        for node in region.nodes:
            needs = dict.fromkeys(self._wanted(node))
            for need in self._captured(node):
                if isinstance(node.kind, For | Loop) or users[need] > 1:
                    needs[need] = None
            nodes += self._copy(needs, copies, node.span)
            nodes.append(self._node(node, copies))
        for value, needs in results:
            nodes += self._copy(needs, copies, value.span)
        wanted = tuple(copies[needs[0]] if needs else value for value, needs in results)
        if tuple(nodes) == region.nodes and wanted == region.results:
            return region
        return replace(region, nodes=tuple(nodes), results=wanted)

    def _copy(self, needs: Iterable[Need], copies: dict[Need, Value], span: Span) -> list[Node]:
        """Return the copies that are not made yet and note them in `copies`."""
        made: list[Node] = []
        for value, device in needs:
            if (value, device) in copies:
                continue
            target = Value(value.type, value.name, span)
            copies[value, device] = target
            kind = Transfer(device, self.home[value])
            made.append(Node(kind, (value,), (target,), span, "transfer"))
        return made

    def _node(self, node: Node, copies: dict[Need, Value]) -> Node:
        own = not isinstance(node.kind, Transfer)
        inputs = tuple(
            copies[needs[0]] if own and (needs := self._need(value, device)) else value
            for value, device in zip(node.inputs, self._input_devices(node), strict=True)
        )
        devices = self._result_devices(node) if node.regions else ()
        regions = tuple(self.region(inner, copies, devices) for inner in node.regions)
        if inputs == node.inputs and regions == node.regions:
            return node
        return replace(node, inputs=inputs, regions=regions)


def _only_device(wants: set[str], type: Type) -> str:
    """Return the one device beside the CPU on which a value is read."""
    devices = wants - {CPU}
    return next(iter(devices)) if len(devices) == 1 and _moves(type) else CPU


def _moves(type: Type) -> bool:
    """Whether values of a type can live on a device: strings and bytes stay on the CPU."""
    match type:
        case TensorType(dtype=dtype):
            return dtype not in (DType.STRING, DType.BYTES)
        case ListType(item=item) | OptionalType(item=item):
            return _moves(item)
        case _:
            return False


PASS = Pass("place_transfers", Phase.PLACE, run)
