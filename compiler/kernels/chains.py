"""Finds the ops of a region that can be one kernel.

An op joins what makes its arguments as long as nothing else has to run between them. A kernel
gives results of one shape and reduces once at most.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ...dsl.types import DimAny, DType
from ...stdlib.op import Decline, Effects, Fold, Literal
from ..graph import Constant, Graph, Node, OpCall, Region, Value
from ..graph_pass import Declined
from ..merge_groups import all_reads
from ..rewrite import Uses, opaque_before
from .write import Chain, folded_axes, op_of, tensor_of, write_kernel

LARGEST_FOLD: Final = 4096
"""Elements that one thread reduces; more are for a kernel of many threads a result."""
MOST_ARRAYS: Final = 32
"""Inputs and results of a kernel: CUDA has room for some 500 numbers that tell of them."""
MOST_OPS: Final = 64
"""A longer chain is several kernels, so that compilers and registers keep up."""
_MOST_AXES: Final = 8


class Chains:
    """The chains of one region, each in order of execution; `declined` says what is no part of
    any."""

    def __init__(self, graph: Graph, region: Region, uses: Uses) -> None:
        self._uses = uses
        self.declined: list[Declined] = []
        self._chain: dict[Node, Chain] = {}
        self._next = _next(graph, region)
        for node in region.nodes:
            alone = self._alone(node)
            if alone is not None:
                self._add(alone)

    def all(self) -> tuple[Chain, ...]:
        return tuple(dict.fromkeys(self._chain.values()))

    def _alone(self, node: Node) -> Chain | None:
        """Return an op as a kernel of its own, None when it has none."""
        if not isinstance(node.kind, OpCall):
            return None
        try:
            chain = self._as_chain([node])
            _require(node, chain)
            write_kernel(chain)
        except Decline as reason:
            text = f"`{node.stage}` is no part of a kernel: {reason}"
            self.declined.append(Declined(node.stage, text, node.span))
            return None
        return chain

    def _add(self, chain: Chain) -> None:
        """Join an op to the chains that make its arguments, as far as they are one kernel."""
        for value in chain.inputs:
            maker = self._uses.producers.get(value)
            other = self._chain.get(maker) if maker is not None else None
            if other is None or maker in chain.nodes:
                continue
            together = self._as_chain([*chain.nodes, *other.nodes])
            if self._fits(together) and not self._comes_back(together):
                chain = together
        for one in chain.nodes:
            self._chain[one] = chain

    def _comes_back(self, chain: Chain) -> bool:
        """Whether something else has to run between the ops of a chain."""
        members, order = set(chain.nodes), self._uses.order
        last = max(map(order.__getitem__, members))
        seen = {after for node in members for after in self._next[node]} - members
        waiting = list(seen)
        while waiting:
            node = waiting.pop()
            with_it = self._chain[node].nodes if node in self._chain else (node,)
            seen.update(with_it)
            if order[node] > last:  # it stands behind all that is in any chain yet
                continue
            for after in (after for one in with_it for after in self._next[one]):
                if after in members:
                    return True
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        return False

    def _as_chain(self, nodes: Iterable[Node]) -> Chain:
        order = self._uses.order
        nodes = tuple(sorted(set(nodes), key=order.__getitem__))
        made = {value for node in nodes for value in node.outputs}
        read = dict.fromkeys(value for node in nodes for value in node.inputs)
        literals: dict[Value, Literal] = {}
        for value in read:
            maker = self._uses.producers.get(value)
            if maker is not None and isinstance(maker.kind, Constant):
                literals[value] = maker.kind.literal
        inputs = tuple(one for one in read if one not in made and one not in literals)
        outputs = tuple(
            value for node in nodes for value in node.outputs if self._is_read(value, nodes)
        )
        return Chain(nodes, inputs, outputs, literals)

    def _is_read(self, value: Value, nodes: Sequence[Node]) -> bool:
        return any(one.node is None or one.node not in nodes for one in self._uses.readers(value))

    def _fits(self, chain: Chain) -> bool:
        """Whether ops that each have a kernel may share one."""
        if not chain.outputs or len(chain.inputs) + len(chain.outputs) > MOST_ARRAYS:
            return False
        if len(chain.nodes) > MOST_OPS:
            return False
        dims = tensor_of(chain.outputs[0]).dims
        if any(tensor_of(value).dims != dims for value in chain.outputs):
            return False
        if len(chain.outputs) > 1 and any(isinstance(dim, DimAny) for dim in dims):
            return False
        folds = [node for node in chain.nodes if isinstance(op_of(node).kernel, Fold)]
        return not folds or (len(folds) == 1 and self._folds_once(chain, folds[0]))

    def _folds_once(self, chain: Chain, fold: Node) -> bool:
        """Whether what stands before a reduction is read by nothing behind it, and all behind it
        has the shape of the results."""
        dims = tensor_of(chain.outputs[0]).dims
        behind: set[Node] = {fold}
        for node in chain.nodes:
            if any(self._uses.producers.get(value) in behind for value in node.inputs):
                behind.add(node)
        before = self._before(chain, fold)
        return all(
            tensor_of(value).dims == dims
            if node in behind or node not in before
            else not self._is_read(value, [*before, fold])
            for node in chain.nodes
            for value in node.outputs
        )

    def _before(self, chain: Chain, fold: Node) -> set[Node]:
        found: set[Node] = set()
        waiting = [fold]
        while waiting:
            for value in waiting.pop().inputs:
                maker = self._uses.producers.get(value)
                if maker is not None and maker in chain.nodes and maker not in found:
                    found.add(maker)
                    waiting.append(maker)
        return found


def _next(graph: Graph, region: Region) -> dict[Node, list[Node]]:
    """Return for each node of a region those that must run behind it, with all they contain."""
    makers = {value: node for node in region.nodes for value in node.outputs}
    found: dict[Node, list[Node]] = {node: [] for node in region.nodes}
    for node in region.nodes:
        for value in all_reads(node):
            if value in makers:
                found[makers[value]].append(node)
    for node, earlier in opaque_before(graph, region).items():
        found[earlier].append(node)
    return found


def _require(node: Node, chain: Chain) -> None:
    """Raise Decline unless an op may be a kernel at all."""
    op = op_of(node)
    if op.kernel is None:
        raise Decline("it is not computed element by element")
    if op.effects is not Effects.PURE:
        raise Decline("it must run exactly where it is written")
    if node.checks:
        raise Decline(f"it checks `{node.checks[0].text}` when it runs")
    kinds = [tensor_of(value) for value in (*chain.inputs, *node.outputs)]
    if any(len(kind.dims) > _MOST_AXES for kind in kinds):
        raise Decline(f"it has more than {_MOST_AXES} axes")
    if not chain.inputs or not chain.outputs:
        raise Decline("nothing reads it, or it reads nothing")
    if isinstance(op.kernel, Fold):
        _require_small(node, chain.literals)


def _require_small(node: Node, literals: Mapping[Value, Literal]) -> None:
    kind = tensor_of(node.inputs[0])
    if kind.dtype is DType.BOOL or node.inputs[0] in literals:
        raise Decline("it reduces no numbers made at run time")
    count = 1
    for axis in folded_axes(node, literals):
        size = kind.dims[axis]
        if not isinstance(size, int):
            raise Decline(f"how many elements it reduces is not known (`{size}`)")
        count *= size
    if not 1 <= count <= LARGEST_FOLD:
        raise Decline(f"it reduces {count} elements, and a kernel 1 to {LARGEST_FOLD}")
