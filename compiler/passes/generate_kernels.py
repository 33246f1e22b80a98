"""Makes chains of ops between stages of a device one kernel there, where that saves copies.

    a = detect(page)                f32, on gpu:0       a = detect(page)
    b = math.round(a * 8)           on the CPU          b = kernel1(a)            on gpu:0
    c = cast(b, u8)                 on the CPU    becomes
    d = read(math.bit_and(c, 7))    u8, on gpu:0        d = read(b)

It runs when all that models could take in has gone into them: what is left is what ONNX Runtime has
no kernel of, or what others read as well. Values stay in the device's memory, and a chain is one
launch whose text is in the plan. On the CPU ops run as before. `compiler/kernels/` has what decides
(`chains.py`, `pay.py`) and what writes the text (`write.py`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256

from ...dsl.types import Field, Signature
from ..graph import Blob, Graph, ModelCall, ModelDef, Node, OpCall, Region, StageSettings
from ..graph_pass import Declined, Pass, PassContext, PassResult, Phase
from ..kernel_file import to_bytes
from ..kernels.chains import Chains
from ..kernels.pay import Placed, place_chains
from ..kernels.write import write_kernel
from ..merge_calls import with_merged
from ..rewrite import Uses
from ..stage_settings import CPU, device_of


def run(graph: Graph, context: PassContext) -> PassResult:
    uses = Uses(graph.body)
    if all(device_of(graph, node) == CPU for node in uses.order):
        return PassResult(graph, False)
    found = [Chains(graph, region, uses) for region in _regions(graph.body)]
    placed = place_chains(graph, uses, (chain for one in found for chain in one.all()))
    declined = _declined(graph, uses, (one for chains in found for one in chains.declined))
    if not placed:
        return PassResult(graph, False, declined)
    names = _unused(graph, uses)
    models: list[ModelDef] = []
    stages: list[tuple[str, StageSettings]] = []
    merged: dict[Node, Node] = {}
    for one in placed:
        model, call = _kernel(one, next(names))
        models.append(model)
        why = _why(one, context.declined)
        stages.append((model.name, StageSettings(device=one.device, stays=why)))
        merged.update(dict.fromkeys(one.chain.nodes, call))
    settings = replace(graph.settings, stages=(*graph.settings.stages, *stages))
    changed = replace(
        graph,
        body=with_merged(graph, graph.body, merged),
        models=(*graph.models, *models),
        settings=settings,
    )
    return PassResult(changed, True, declined)


def _regions(region: Region) -> Iterator[Region]:
    yield region
    for node in region.nodes:
        for inner in node.regions:
            yield from _regions(inner)


def _unused(graph: Graph, uses: Uses) -> Iterator[str]:
    """Yield names that no stage has."""
    taken = {node.stage for node in uses.order} | {model.name for model in graph.models}
    number = 0
    while True:
        number += 1
        if f"kernel{number}" not in taken:
            yield f"kernel{number}"


def _kernel(placed: Placed, name: str) -> tuple[ModelDef, Node]:
    chain = placed.chain
    content = to_bytes(write_kernel(chain))
    params = tuple(Field(f"in{i}", value.type) for i, value in enumerate(chain.inputs))
    results = tuple(Field(f"out{i}", value.type) for i, value in enumerate(chain.outputs))
    span = chain.nodes[0].span
    model = ModelDef(
        name=name,
        backend="kernel",
        location="",
        signature=Signature(params, results),
        input_names=tuple(one.name for one in params),
        output_names=tuple(one.name for one in results),
        input_axes=(0,) * len(params),
        output_axes=(0,) * len(results),
        content=Blob(sha256(content).hexdigest(), content),
        span=span,
        members=tuple(node.stage for node in chain.nodes),
    )
    return model, Node(ModelCall(name), chain.inputs, chain.outputs, span, name)


def _why(placed: Placed, declined: Iterable[Declined]) -> str:
    """Return why the ops are a kernel: what it saves, and why no model took them in."""
    spans = {node.span: node.stage for node in placed.chain.nodes}
    reasons = [one.reason for one in declined if spans.get(one.span) == one.stage]
    copies = f"{placed.saved} {'copy' if placed.saved == 1 else 'copies'} fewer than on the CPU"
    return "; ".join(dict.fromkeys((copies, *reasons)))


def _declined(graph: Graph, uses: Uses, found: Iterable[Declined]) -> tuple[Declined, ...]:
    """Return what is said of ops that stages of a device would reach through kernels."""
    told = {(one.span, one.stage): one for one in found}
    waiting = [node for node in uses.order if device_of(graph, node) != CPU]
    seen = set(waiting)
    while waiting:
        for node in _beside(waiting.pop(), uses):
            if node not in seen and isinstance(node.kind, OpCall):
                seen.add(node)
                if (node.span, node.stage) not in told:
                    waiting.append(node)
    reached = {(node.span, node.stage) for node in seen}
    return tuple(one for key, one in told.items() if key in reached)


def _beside(node: Node, uses: Uses) -> Iterator[Node]:
    """Yield what makes the arguments of a node and what reads its results."""
    for value in node.inputs:
        if value in uses.producers:
            yield uses.producers[value]
    for value in node.outputs:
        yield from (one.node for one in uses.readers(value) if one.node is not None)


PASS = Pass("generate_kernels", Phase.FUSE, run, after=("merge_siblings",))
