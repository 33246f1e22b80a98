"""Which model calls that run side by side become one model, and the model that feeds them all.

Siblings read the same value, or results of the same model, directly or through a few ops. Those
that feed different results join only while they are small: whoever asks for one result runs them
all. A call saved is some 5 us for everybody who asks for all; each head up to the bound is at most
some 50 us for who does not want it.
"""

from collections.abc import Iterable

from ..stdlib.op import Decline
from .dimensions import type_dims
from .graph import Graph, ModelCall, Node, OpCall, Value
from .merge_groups import Grouping
from .model_cost import multiply_adds
from .onnx_store import OnnxStore
from .rewrite import Uses, is_pure

SMALL = 1_000_000
"""Multiply-adds of a head that a caller may have to run for nothing: some 50 us on one core."""

_NEAR = 8
"""Ops between siblings and the value that they share."""

_TRIES = 8
"""Groups that a sibling tries to join, when it may not join the first."""


class Siblings(Grouping):
    """Groups of calls side by side, and what feeds them or is fed by them."""

    def __init__(self, graph: Graph, uses: Uses, store: OnnxStore) -> None:
        super().__init__(graph, uses)
        self._store = store
        self._costs: dict[Node, int | None] = {}

    def grow(self, calls: list[Node]) -> None:
        leaders: dict[Node | Value, list[Node]] = {}
        for call in calls:
            for root in self._roots(call):
                self._join_one(leaders.setdefault(root, []), call)
        for first, second, _ in self.feeds(calls):
            if len(self.group_of(first)) > 1 or len(self.group_of(second)) > 1:
                self.join(first, second)

    def require_alike(self, first: Node, second: Node) -> None:
        """Raise Decline when a caller who asks for less would run more that is not small, or
        rows that could share a run could no longer."""
        group = [*self.group_of(first), *self.group_of(second)]
        wanted = 0
        for call in group:
            wanted |= self.wanted_by(call)
        for call in group:
            if self.wanted_by(call) != wanted:
                self._require_small(call)
        self.require_same_batching(first, second)
        side_by_side = not any(value in first.outputs for value in second.inputs)
        if side_by_side and self.waits(first) and _sizes(first.inputs) != _sizes(second.inputs):
            raise Decline("rows that could share a run of one differ in size for the other")

    def _join_one(self, leaders: list[Node], call: Node) -> None:
        """Join a call with the first group of its root that it may join, or let it lead one."""
        said = len(self.declined)
        for leader in leaders[:_TRIES]:
            if self.join(leader, call):
                del self.declined[said:]
                return
            del self.declined[said + 1 :]  # the first reason will do
        leaders.append(call)

    def _require_small(self, call: Node) -> None:
        if call not in self._costs:
            model = self.model(call)
            content = model.content
            known = content is not None and model.backend == "onnx"
            self._costs[call] = (
                multiply_adds(model, self._store.proto(content)) if content and known else None
            )
        cost = self._costs[call]
        if cost is None or cost > SMALL:
            size = (
                "a number of multiply-adds that is not known"
                if cost is None
                else (f"{cost:,} multiply-adds")
            )
            raise Decline(
                f"a caller may ask for results that do not need `{call.stage}`, which takes "
                f"{size}; up to {SMALL:,} are run for nothing"
            )

    def _roots(self, call: Node) -> Iterable[Node | Value]:
        """Return what a call reads, seen through a few ops: models, and values of others."""
        found: dict[Node | Value, None] = {}
        level = list(dict.fromkeys(call.inputs))
        for _ in range(_NEAR + 1):
            behind: dict[Value, None] = {}
            for value in level:
                maker = self.uses.producers.get(value)
                if maker is None:
                    found[value] = None
                elif isinstance(maker.kind, ModelCall):
                    found[maker] = None
                elif isinstance(maker.kind, OpCall) and is_pure(self.graph, maker):
                    behind.update(dict.fromkeys(maker.inputs))
                elif not self.uses.is_literal(value):
                    found[value] = None
            level = list(behind)
        return found


def _sizes(values: Iterable[Value]) -> set[object]:
    """Return the sizes of values that may differ from row to row."""
    return {dim for one in values for dim in type_dims(one.type) if not isinstance(dim, int)}
