"""Chooses the ops around a model call that become nodes of the model's own graph.

A cluster is the call with ops before it and after it. Ops join one by one, nearest first, as long
as nothing is lost: no value that others read disappears, nothing runs more often or for rows that
did not need it, rows that could share a run still can, and no tensor that crosses the model's
border becomes much larger. Where an op stays out, the reason is kept.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from ..dsl.types import Dim, DimVar, TensorType
from ..stdlib.op import Decline, Effects, Op, Operand
from .glue_size import is_told, shrinks
from .graph import Constant, Graph, If, Match, ModelCall, ModelDef, Node, OpCall, Value
from .graph_pass import Declined
from .onnx_emit import try_op
from .rewrite import Uses


@dataclass(frozen=True, slots=True)
class Cluster:
    """A model call and the ops that join it, each side in order of execution."""

    call: Node
    before: tuple[Node, ...]
    after: tuple[Node, ...]

    @property
    def ops(self) -> tuple[Node, ...]:
        return (*self.before, *self.after)


def op_of(node: Node) -> Op:
    """Return the op of a node that calls one."""
    if not isinstance(node.kind, OpCall):
        raise TypeError(f"{node.stage} calls no op")
    return node.kind.op


def front(axis: int | None) -> int | None:
    """Return where an op has the batch axis next to a model that has it at `axis`."""
    return None if axis is None else 0


class Growth:
    """Grows the cluster of one call. `taken` are nodes of other clusters."""

    def __init__(
        self, graph: Graph, uses: Uses, call: Node, model: ModelDef, opset: int, taken: set[Node]
    ) -> None:
        self.uses, self.call, self.model, self.opset = uses, call, model, opset
        self.taken = taken
        self.may_batch = model.batches and not graph.settings.stage(call.stage).batching_off
        self.declined: list[Declined] = []
        self._before: set[Node] = set()
        self._after: set[Node] = set()

    def cluster(self) -> Cluster:
        self._grow_before()
        self._grow_after()
        order = self.uses.order
        return Cluster(
            self.call,
            tuple(sorted(self._before, key=order.__getitem__)),
            tuple(sorted(self._after, key=order.__getitem__)),
        )

    def _grow_before(self) -> None:
        """Take ops backwards from the inputs; readers are decided before what they read."""
        wanted: dict[Value, set[int | None]] = {}
        queue: list[tuple[int, Node]] = []

        def want(value: Value, axis: int | None) -> None:
            wanted.setdefault(value, set()).add(axis)
            producer = self.uses.producers.get(value)
            if producer is not None and isinstance(producer.kind, OpCall):
                heappush(queue, (-self.uses.order[producer], producer))

        for value, axis in zip(self.call.inputs, self.model.input_axes, strict=True):
            want(value, axis)
        seen: set[Node] = set()
        while queue:
            _, node = heappop(queue)
            if node in seen or node in self.taken:
                continue
            seen.add(node)
            axes = {front(axis) for value in node.outputs for axis in wanted.get(value, ())}
            try:
                self._require_before(node, axes)
            except Decline as reason:
                self._decline(node, str(reason))
                continue
            self._before.add(node)
            for value in self._tensors(node):
                want(value, *axes)

    def _require_before(self, node: Node, axes: set[int | None]) -> None:
        """Raise Decline unless the op may run in front, inside the model."""
        self._require_movable(node)
        self._require_same_rows(node)
        for value in node.outputs:
            self._require_readers(value, {self.call, *self._before})
        if len(axes) > 1:
            raise Decline(f"`{self.model.name}` takes its result with and without a batch axis")
        batched = axes == {0}
        inputs = self._tensors(node)
        for value in inputs:
            if any(shrinks(value.type, result.type) for result in node.outputs):
                raise Decline(
                    f"it makes little of much: `{self.model.name}` would be given the larger tensor"
                )
        if batched and self.may_batch:
            results = list(_dims(node.outputs))
            if not all(is_told(dim, results) for dim in _dims(inputs)):
                raise Decline(
                    "it gives rows of different sizes the same size; inside "
                    f"`{self.model.name}` they could no longer share a run"
                )
        self._require_onnx(node, dict.fromkeys(inputs, batched))

    def _grow_after(self) -> None:
        """Take all ops that could follow, then give back those whose argument others read."""
        inside: dict[Value, bool] = {}
        queue: list[tuple[int, Node]] = []

        def reach(value: Value, axis: int | None) -> None:
            inside[value] = axis is not None
            for reader in self.uses.readers(value):
                if reader.node is not None and isinstance(reader.node.kind, OpCall):
                    heappush(queue, (self.uses.order[reader.node], reader.node))

        for value, axis in zip(self.call.outputs, self.model.output_axes, strict=True):
            reach(value, axis)
        seen: set[Node] = set()
        while queue:
            _, node = heappop(queue)
            if node in seen or node in self.taken or self._belongs_to_next(node, inside):
                continue
            seen.add(node)
            try:
                batched = self._require_after(node, inside)
            except Decline as reason:
                self._decline(node, str(reason))
                continue
            self._after.add(node)
            for value in node.outputs:
                reach(value, 0 if batched else None)
        self._give_back(inside)

    def _require_after(self, node: Node, inside: dict[Value, bool]) -> bool:
        """Raise Decline unless the op may follow inside the model; return whether it batches."""
        self._require_movable(node)
        if self.uses.region[node] is not self.uses.region[self.call]:
            raise Decline(f"it does not run whenever `{self.model.name}` does")
        given = set(_dims(self.call.inputs)) | set(_dims(self._outer_inputs()))
        operands: dict[Value, bool] = {}
        for value in self._tensors(node):
            operands[value] = inside.get(value, self.model.batches)
            if value in inside:
                if any(shrinks(result.type, value.type) for result in node.outputs):
                    raise Decline("it makes much of little, which would have to leave the model")
                continue
            producer = self.uses.producers.get(value)
            if producer is not None and self.uses.order[producer] > self.uses.order[self.call]:
                raise Decline(f"it needs `{value.name}`, which is made after `{self.model.name}`")
            if self.may_batch and not all(
                isinstance(dim, int) or dim in given for dim in _dims([value])
            ):
                raise Decline(
                    f"it needs `{value.name}`, whose size may differ from row to row; inside "
                    f"`{self.model.name}` such rows could not share a run"
                )
        batched = any(operands.values())
        if batched and not set(_variables(node.outputs)) <= set(_variables(operands)):
            raise Decline("how large its result is depends on the row")
        self._require_onnx(node, operands)
        return batched

    def _give_back(self, inside: dict[Value, bool]) -> None:
        """Drop ops until each value inside is read by all or none of the cluster."""
        changed = True
        while changed:
            changed = False
            members = {self.call, *self._after}
            for node in sorted(self._after, key=self.uses.order.__getitem__):
                try:
                    for value in self._tensors(node):
                        if value not in inside:
                            continue
                        producer = self.uses.producers[value]
                        if producer not in members:
                            raise Decline(f"`{producer.stage}` stays outside")
                        self._require_readers(value, members)
                except Decline as reason:
                    self._after.discard(node)
                    self._decline(node, str(reason))
                    changed = True

    def _belongs_to_next(self, node: Node, inside: dict[Value, bool]) -> bool:
        """Tell whether the op widens what goes to another model: it is better glued there."""
        readers = [reader.node for value in node.outputs for reader in self.uses.readers(value)]
        widens = any(
            shrinks(result.type, value.type, 2)
            for value in self._tensors(node)
            if value in inside
            for result in node.outputs
        )
        return widens and all(
            one is not None and isinstance(one.kind, ModelCall) for one in readers
        )

    def _require_movable(self, node: Node) -> None:
        if op_of(node).effects is not Effects.PURE:
            raise Decline("it must run exactly where it is written")
        if node.checks:
            raise Decline(f"it checks `{node.checks[0].text}` when it runs")

    def _require_same_rows(self, node: Node) -> None:
        """Raise Decline when the op, run with the call, would run more often than now."""
        region = self.uses.region[self.call]
        while region is not self.uses.region[node]:
            owner = self.uses.owner[region]
            if not isinstance(owner.kind, If | Match):
                raise Decline(f"it runs once, `{self.model.name}` for each item")
            region = self.uses.region[owner]

    def _require_readers(self, value: Value, members: set[Node]) -> None:
        for reader in self.uses.readers(value):
            if reader.node is None:
                raise Decline(f"`{value.name}` is also a result")
            if reader.node not in members:
                raise Decline(f"`{value.name}` is also read by `{reader.node.stage}`")

    def _require_onnx(self, node: Node, batched: dict[Value, bool]) -> None:
        operands = [self._trial_operand(value, batched) for value in node.inputs]
        try_op(op_of(node), operands, [value.type for value in node.outputs], self.opset)

    def _trial_operand(self, value: Value, batched: dict[Value, bool]) -> Operand:
        if value not in batched:
            return literal_operand(self.uses, value)
        if not isinstance(value.type, TensorType):
            raise Decline(f"`{value.name}` is a {value.type} and no tensor")
        return Operand(value.type, tensor=value.name, batched=batched[value])

    def _tensors(self, node: Node) -> list[Value]:
        """Return the arguments that are not literals."""
        return [value for value in node.inputs if not self.uses.is_literal(value)]

    def _outer_inputs(self) -> Iterator[Value]:
        for node in self._before:
            yield from self._tensors(node)

    def _decline(self, node: Node, reason: str) -> None:
        text = f"`{node.stage}` stays outside of `{self.model.name}`: {reason}"
        self.declined.append(Declined(node.stage, text, node.span))


def literal_operand(uses: Uses, value: Value) -> Operand:
    """Return a constant as a lowering's operand."""
    kind = uses.producers[value].kind
    if not isinstance(kind, Constant):
        raise TypeError(f"{value.name} is no literal")
    return Operand(value.type, literal=kind.literal)


def _dims(values: Iterable[Value]) -> Iterator[Dim]:
    for value in values:
        if isinstance(value.type, TensorType):
            yield from value.type.dims


def _variables(values: Iterable[Value]) -> Iterator[Dim]:
    return (dim for dim in _dims(values) if isinstance(dim, DimVar))
