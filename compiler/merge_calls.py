"""Makes one model of each group of calls, and one call of it: for passes that merge models.

All that a group reads from outside becomes the model's inputs, each value once; what others read
becomes its outputs. Equal weights are kept once.
"""

from dataclasses import replace
from heapq import heapify, heappop, heappush

from ..dsl.types import Field, Signature
from ..stdlib.op import Decline
from .glue_dims import CallSizes
from .graph import Check, Graph, ModelCall, ModelDef, Node, Region, Value
from .graph_pass import Declined, PassContext, PassResult
from .merge_groups import Grouping, all_reads
from .onnx_merge import Joined, Joint, Port, Wire, join
from .onnx_names import unused
from .rewrite import Uses, opaque_before, sizes, sizes_of


def merge_groups(graph: Graph, uses: Uses, grouping: Grouping, context: PassContext) -> PassResult:
    """Return the graph with each group as one model; groups that cannot be one are declined."""
    merged: dict[Node, Node] = {}
    models: dict[str, ModelDef] = {}
    declined: list[Declined] = []
    for group in grouping.groups():
        try:
            model, call = _Merge(group, grouping, uses).merged(context)
        except Decline as reason:
            first, last = group[0].stage, group[-1].stage
            text = f"`{first}` and `{last}` stay several models: {reason}"
            declined.append(Declined(last, text, group[-1].span))
            continue
        merged.update(dict.fromkeys(group, call))
        models[model.name] = model
    declined = [*grouping.declined, *declined]
    if not merged:
        return PassResult(graph, False, tuple(declined))
    gone = {grouping.model(call).name for call in merged}
    kept = tuple(model for model in graph.models if model.name not in gone)
    return PassResult(
        replace(
            graph, body=with_merged(graph, graph.body, merged), models=(*kept, *models.values())
        ),
        True,
        tuple(declined),
    )


class _Merge:
    """The making of one model of a group of calls."""

    def __init__(self, group: list[Node], grouping: Grouping, uses: Uses) -> None:
        self.group, self.uses = group, uses
        self.models = [grouping.model(call) for call in group]
        self.sizes = [CallSizes(*pair) for pair in zip(group, self.models, strict=True)]
        self.made = {
            value: Port(i, self.models[i].output_names[k])
            for i, call in enumerate(group)
            for k, value in enumerate(call.outputs)
        }

    def merged(self, context: PassContext) -> tuple[ModelDef, Node]:
        """Return the model and the call of it; raises Decline."""
        inputs, wires = self._inputs()
        outputs = self._outputs()
        blobs = [model.content for model in self.models if model.content is not None]
        joined = join(
            Joint(
                tuple(context.models.proto(blob) for blob in blobs),
                tuple(wires),
                tuple(ports for _, ports in inputs),
                tuple(self.made[value] for value in outputs),
            )
        )
        model = self._definition(inputs, outputs, joined, context)
        first = self.group[0]
        call = Node(
            ModelCall(model.name),
            tuple(value for value, _ in inputs),
            tuple(outputs),
            first.span,
            model.name,
            checks=tuple(dict.fromkeys(c for one in self.group for c in one.checks)),
        )
        self._require_sizes(model, call)
        return model, call

    def _inputs(self) -> tuple[list[tuple[Value, tuple[Port, ...]]], list[Wire]]:
        """Return what comes from outside, each value once, and what flows inside."""
        found: dict[object, tuple[Value, list[Port]]] = {}
        wires: list[Wire] = []
        for i, call in enumerate(self.group):
            model = self.models[i]
            for k, value in enumerate(call.inputs):
                port = Port(i, model.input_names[k])
                if value in self.made:
                    wires.append(Wire(self.made[value], port))
                    continue
                # a literal may stand for each model's own default
                key = port if self.uses.is_literal(value) else (value, model.input_axes[k])
                found.setdefault(key, (value, []))[1].append(port)
        return [(value, tuple(ports)) for value, ports in found.values()], wires

    def _outputs(self) -> list[Value]:
        """Return what is read outside."""
        members = set(self.group)
        return [
            value
            for value in self.made
            if any(reader.node not in members for reader in self.uses.readers(value))
        ]

    def _definition(
        self,
        inputs: list[tuple[Value, tuple[Port, ...]]],
        outputs: list[Value],
        joined: Joined,
        context: PassContext,
    ) -> ModelDef:
        names: set[str] = set()
        given = [self._input_at(ports[0]) for _, ports in inputs]
        made = [self._output_at(self.made[value]) for value in outputs]
        params = tuple(replace(field, name=unused(field.name, names)) for field, _ in given)
        names = set()
        results = tuple(replace(field, name=unused(field.name, names)) for field, _ in made)
        return ModelDef(
            name=_name(self.models),
            backend="onnx",
            location=", ".join(dict.fromkeys(model.location for model in self.models)),
            signature=Signature(params, results),
            input_names=joined.input_names,
            output_names=joined.output_names,
            input_axes=tuple(axis for _, axis in given),
            output_axes=tuple(axis for _, axis in made),
            content=context.models.blob(joined.model),
            span=self.models[0].span,
            members=tuple(
                name for model in self.models for name in (model.members or (model.name,))
            ),
            checks=self._of_calls([model.checks for model in self.models]),
            where=self._of_calls([model.where for model in self.models]),
            precision=tuple(one for model in self.models for one in model.precision),
        )

    def _input_at(self, port: Port) -> tuple[Field, int | None]:
        model = self.models[port.part]
        k = model.input_names.index(port.name)
        return self._field(port.part, model.signature.params[k]), model.input_axes[k]

    def _output_at(self, port: Port) -> tuple[Field, int | None]:
        model = self.models[port.part]
        k = model.output_names.index(port.name)
        return self._field(port.part, model.signature.results[k]), model.output_axes[k]

    def _field(self, part: int, field: Field) -> Field:
        return replace(field, type=self.sizes[part].of_call(field.type))

    def _of_calls(self, checks: list[tuple[Check, ...]]) -> tuple[Check, ...]:
        """Return what is checked of each model, by the sizes of the calls."""
        found = (
            self.sizes[i].check_of_call(check) for i, one in enumerate(checks) for check in one
        )
        return tuple(dict.fromkeys(check for check in found if check is not None))

    def _require_sizes(self, model: ModelDef, call: Node) -> None:
        """Raise Decline when a size that is checked would no longer be seen."""
        seen = {
            dim
            for field in (*model.signature.params, *model.signature.results)
            for dim in sizes(field.type)
        }
        for check in model.checks:
            if not sizes_of(check) <= seen:
                raise Decline(f"`{check.text}` is checked of sizes between them")
        visible = {dim for value in (*call.inputs, *call.outputs) for dim in sizes(value.type)}
        for value in self.made:
            hidden = (sizes(value.type) & self.uses.checked) - visible
            if hidden:
                raise Decline(f"the size `{min(map(str, hidden))}` between them is checked")


def _name(models: list[ModelDef]) -> str:
    names = [model.name for model in models]
    return "+".join(names) if len(names) <= 3 else f"{names[0]}..{names[-1]}"


def with_merged(graph: Graph, region: Region, merged: dict[Node, Node]) -> Region:
    """Put merged calls in place of their groups, and each node behind what it reads."""
    inner = {
        node: replace(node, regions=tuple(with_merged(graph, one, merged) for one in node.regions))
        if node.regions
        else node
        for node in region.nodes
    }
    if not any(node in merged for node in region.nodes):
        nodes = tuple(inner[node] for node in region.nodes)
        unchanged = all(a.regions == b.regions for a, b in zip(nodes, region.nodes, strict=True))
        return region if unchanged else replace(region, nodes=nodes)
    places = {merged.get(node, inner[node]): i for i, node in enumerate(region.nodes)}
    opaque = opaque_before(graph, region)
    before = {inner[node]: inner[earlier] for node, earlier in opaque.items()}
    return replace(region, nodes=_in_order(places, before))


def _in_order(places: dict[Node, int], before: dict[Node, Node]) -> tuple[Node, ...]:
    """Return nodes with each behind what it reads and what `before` says, else by their places."""
    makers = {value: node for node in places for value in node.outputs}
    waits: dict[Node, int] = {}
    readers: dict[Node, list[Node]] = {}
    for node in places:
        needs = {makers[value] for value in all_reads(node) if value in makers} - {node}
        needs |= {before[node]} if node in before else set()
        waits[node] = len(needs)
        for need in needs:
            readers.setdefault(need, []).append(node)
    at = {place: node for node, place in places.items()}
    ready = [place for node, place in places.items() if not waits[node]]
    heapify(ready)
    order: list[Node] = []
    while ready:
        node = at[heappop(ready)]
        order.append(node)
        for reader in readers.get(node, ()):
            waits[reader] -= 1
            if not waits[reader]:
                heappush(ready, places[reader])
    return tuple(order)
