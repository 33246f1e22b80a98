"""Which model calls become one model: the rules that any two must keep to, and those that feed
each other. `sibling_groups.py` has those that run side by side."""

from collections.abc import Iterable, Iterator

from ..dsl.types import TensorType
from ..stdlib.op import Decline
from .dimensions import type_dims
from .graph import For, Graph, Loop, ModelCall, ModelDef, Node, Region, Try, Value
from .graph_pass import Declined
from .rewrite import Uses, is_pure, opaque_before, walk
from .stage_settings import device_of, settings_of


class Grouping:
    """Groups of model calls that lose nothing by being one; `pairs` says what is tried."""

    def __init__(self, graph: Graph, uses: Uses) -> None:
        self.graph, self.uses = graph, uses
        self.declined: list[Declined] = []
        self._models = {model.name: model for model in graph.models}
        self._sites: dict[str, int] = {}
        self._wanted_by = _wanted_by(graph)
        self._group: dict[Node, list[Node]] = {}
        self._reads: dict[Node, tuple[Value, ...]] = {}
        self._opaque_before: dict[Region, dict[Node, Node]] = {}

    def groups(self) -> list[list[Node]]:
        """Return groups of at least two calls, each in order of execution."""
        calls = [node for node in self.uses.order if isinstance(node.kind, ModelCall)]
        for call in calls:
            name = self.model(call).name
            self._sites[name] = self._sites.get(name, 0) + 1
        self.grow(calls)
        found = {id(group): group for group in self._group.values()}
        return [group for group in found.values() if len(group) > 1]

    def grow(self, calls: list[Node]) -> None:
        """Join calls, which are in order of execution."""
        raise NotImplementedError

    def model(self, call: Node) -> ModelDef:
        if not isinstance(call.kind, ModelCall):
            raise TypeError(f"{call.stage} calls no model")
        return self._models[call.kind.model]

    def join(self, first: Node, second: Node) -> bool:
        """Make the groups of two calls one, unless a rule is against it: that is noted."""
        one, other = self.group_of(first), self.group_of(second)
        if one is other:
            return True
        try:
            self._require_mergeable(first)
            self._require_mergeable(second)
            self._require_together(first, second)
            self.require_alike(first, second)
            for before, call, value in self._between(one, other):
                self._require_feeding(before, call, value)
            self._require_closed([*one, *other])
        except Decline as reason:
            text = f"`{first.stage}` and `{second.stage}` stay two models: {reason}"
            self.declined.append(Declined(second.stage, text, second.span))
            return False
        one.extend(other)
        one.sort(key=self.uses.order.__getitem__)
        for node in other:
            self._group[node] = one
        return True

    def feeds(self, calls: Iterable[Node]) -> Iterator[tuple[Node, Node, Value]]:
        """Yield each pair of calls of which the first feeds the second, with what it makes."""
        for call in calls:
            for value in dict.fromkeys(call.inputs):
                before = self.uses.producers.get(value)
                if before is not None and isinstance(before.kind, ModelCall):
                    yield before, call, value

    def wanted_by(self, call: Node) -> int:
        """Return which of the pipeline's results need a call, as bits."""
        return self._wanted_by[call]

    def require_alike(self, first: Node, second: Node) -> None:
        """Raise Decline when a caller who asks for less would run more."""
        if self._wanted_by[first] != self._wanted_by[second]:
            raise Decline(
                f"a caller may ask for results that need `{first.stage}` and not `{second.stage}`"
            )

    def group_of(self, call: Node) -> list[Node]:
        return self._group.setdefault(call, [call])

    def _between(self, one: list[Node], other: list[Node]) -> Iterator[tuple[Node, Node, Value]]:
        """Yield what flows from one of two groups to the other, with who makes and reads it."""
        few, many = sorted((one, other), key=len)
        members = set(many)
        yield from (found for found in self.feeds(few) if found[0] in members)
        for call in few:
            for value in call.outputs:
                for reader in self.uses.readers(value):
                    if reader.node is not None and reader.node in members:
                        yield call, reader.node, value

    def _require_mergeable(self, call: Node) -> None:
        model = self.model(call)
        if model.backend != "onnx":
            raise Decline(f"`{call.stage}` is no ONNX model but {model.backend}")
        if model.content is None:
            raise Decline(f"the file of `{call.stage}` has not been read")
        batching = settings_of(self.graph, call).batching
        if batching is not None and batching.padding is not None:
            raise Decline(f"rows of different `{batching.padding.dim}` meet at `{call.stage}`")
        if self._sites[model.name] > 1:
            raise Decline(
                f"`{call.stage}` is called in {self._sites[model.name]} places, and one copy "
                "of its weights serves all"
            )

    def _require_feeding(self, first: Node, second: Node, value: Value) -> None:
        """Raise Decline unless what `first` makes can flow on inside, row by row."""
        if not isinstance(value.type, TensorType):
            raise Decline(f"`{value.name}` between them is a {value.type} and no tensor")
        made = self.model(first).output_axes[first.outputs.index(value)]
        for given, axis in zip(second.inputs, self.model(second).input_axes, strict=True):
            if given is value and axis != made:
                raise Decline(f"{_axis(first, made)} and {_axis(second, axis)}")
        self.require_same_batching(first, second)
        self._require_same_meetings(first, second, value)

    def require_same_batching(self, first: Node, second: Node) -> None:
        if self.model(first).batches != self.model(second).batches:
            batching, other = (first, second) if self.model(first).batches else (second, first)
            raise Decline(f"`{batching.stage}` batches and `{other.stage}` does not")

    def waits(self, call: Node) -> bool:
        """Tell whether rows wait for each other at a call that can batch."""
        waits = settings_of(self.graph, call).batching is not None or self.graph.batch is not None
        return waits and self.model(call).batches

    def _require_same_meetings(self, first: Node, second: Node, value: Value) -> None:
        """Raise Decline when rows wait for each other, and only `second` makes all of them wait.

        Rows of different sizes never share a run: where the first model makes them equal, they
        can meet at the second, and could not at both as one.
        """
        if not self.waits(first):
            return
        given = {dim for one in first.inputs for dim in type_dims(one.type)}
        if any(not isinstance(dim, int) for dim in given - set(type_dims(value.type))):
            raise Decline(
                f"rows of different sizes meet at `{second.stage}` because `{first.stage}` has "
                "made them equal"
            )

    def _require_together(self, first: Node, second: Node) -> None:
        region = self.uses.region[second]
        if self.uses.region[first] is not region:
            owner = self.uses.owner.get(region)
            match owner.kind if owner is not None else None:
                case For():
                    how = "for each item of a `for`"
                case Loop():
                    how = "in each turn of a `loop`"
                case Try():
                    how = "under a `try`"
                case _:
                    how = "only in one arm"
            raise Decline(f"`{second.stage}` runs {how}")
        one, other = device_of(self.graph, first), device_of(self.graph, second)
        if one != other:
            raise Decline(f"`{first.stage}` runs on {one} and `{second.stage}` on {other}")
        if settings_of(self.graph, first) != settings_of(self.graph, second):
            raise Decline("the schedule gives them different settings")

    def _require_closed(self, group: list[Node]) -> None:
        """Raise Decline when something outside must run between two calls of the group."""
        members, order = set(group), self.uses.order
        start = min(order[node] for node in group)
        queue = [node for call in group for node in self._makers(call.inputs, call)]
        seen: set[Node] = set()
        while queue:
            node = queue.pop()
            if node in members or node in seen or order[node] < start:
                continue
            seen.add(node)
            makers = self._makers(self._all_reads(node), node)
            if any(maker in members for maker in makers):
                raise Decline(f"`{node.stage}` runs between them")
            queue.extend(makers)

    def _makers(self, values: Iterable[Value], reader: Node) -> list[Node]:
        """Return the nodes of the reader's own region that must run before it."""
        region = self.uses.region[reader]
        makers = [self.uses.producers.get(value) for value in values]
        if region not in self._opaque_before:
            self._opaque_before[region] = opaque_before(self.graph, region)
        makers.append(self._opaque_before[region].get(reader))
        return [one for one in makers if one is not None and self.uses.region[one] is region]

    def _all_reads(self, node: Node) -> tuple[Value, ...]:
        """Return what a node reads, also within its regions."""
        if not node.regions:
            return node.inputs
        if node not in self._reads:
            self._reads[node] = tuple(all_reads(node))
        return self._reads[node]


class Feeding(Grouping):
    """Groups of calls that feed each other."""

    def grow(self, calls: list[Node]) -> None:
        for first, second, _ in self.feeds(calls):
            self.join(first, second)


def all_reads(node: Node) -> dict[Value, None]:
    """Return what a node and the nodes in its regions read, in order."""
    found = dict.fromkeys(node.inputs)
    for region in node.regions:
        for inner in walk(region):
            found.update(dict.fromkeys(inner.inputs))
            for nested in inner.regions:
                found.update(dict.fromkeys(nested.results))
        found.update(dict.fromkeys(region.results))
    return found


def _axis(call: Node, axis: int | None) -> str:
    return f"`{call.stage}` batches " + ("not there" if axis is None else f"along axis {axis}")


def _wanted_by(graph: Graph) -> dict[Node, int]:
    """Return for each node which of the pipeline's results need it, as bits."""
    everything = (1 << len(graph.body.results)) - 1
    wanted: dict[Value, int] = {}
    found: dict[Node, int] = {}

    def visit(region: Region, results: list[int]) -> None:
        for value, bits in zip(region.results, results, strict=True):
            wanted[value] = wanted.get(value, 0) | bits
        for node in reversed(region.nodes):
            outputs = [wanted.get(value, 0) for value in node.outputs]
            bits = 0
            for one in outputs:
                bits |= one
            if not is_pure(graph, node):
                bits = everything
            found[node] = bits
            for inner in node.regions:
                flags = [bits] * (len(inner.results) - len(outputs))
                visit(inner, [*outputs, *flags])
            for value in node.inputs:
                wanted[value] = wanted.get(value, 0) | bits

    visit(graph.body, [1 << i for i in range(len(graph.body.results))])
    return found
