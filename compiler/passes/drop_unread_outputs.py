"""Drops outputs of ONNX models that nothing reads, and the nodes that compute nothing else.

    heat, mask = detect(page)      (mask is never read)      becomes      heat = detect(page)

The runtime makes, and copies, every output that a model declares. An output stays when it is the
only one, when any call of the model reads it, or when only its shape tells a size that is checked.
"""

from dataclasses import replace

from ...dsl.types import DimVar, Signature, Type
from ..graph import Graph, ModelCall, ModelDef, Node, Region
from ..graph_pass import Declined, Pass, PassContext, PassResult, Phase
from ..onnx_prune import without_outputs
from ..rewrite import Uses, rebuilt, sizes, sizes_of


def run(graph: Graph, context: PassContext) -> PassResult:
    uses = Uses(graph.body)
    calls: dict[str, list[Node]] = {}
    for node in uses.order:
        if isinstance(node.kind, ModelCall):
            calls.setdefault(node.kind.model, []).append(node)
    models: dict[str, ModelDef] = {}
    replaced: dict[Node, Node] = {}
    declined: list[Declined] = []
    for model in graph.models:
        sites = calls.get(model.name, [])
        unread = [i for i in range(len(model.output_names)) if _is_unread(i, sites, uses)]
        if not sites or not unread or model.backend != "onnx" or model.content is None:
            continue
        kept = [i for i in range(len(model.output_names)) if i not in unread] or unread[:1]
        told = [i for i in unread if i not in kept and _tells(i, kept, model, sites, uses)]
        if told:
            names = ", ".join(f"`{model.signature.results[i].name}`" for i in told)
            reason = f"{names} of `{model.name}` stays, unread: its shape alone tells a size"
            declined.append(Declined(sites[0].stage, reason, sites[0].span))
        kept = sorted({*kept, *told})
        if len(kept) == len(model.output_names):
            continue
        names = {name for i, name in enumerate(model.output_names) if i not in kept}
        proto = without_outputs(context.models.proto(model.content), names)
        models[model.name] = replace(
            model,
            signature=Signature(
                model.signature.params, tuple(model.signature.results[i] for i in kept)
            ),
            output_names=tuple(model.output_names[i] for i in kept),
            output_axes=tuple(model.output_axes[i] for i in kept),
            content=context.models.blob(proto),
        )
        for call in sites:
            replaced[call] = replace(call, outputs=tuple(call.outputs[i] for i in kept))
    if not models:
        return PassResult(graph, False, tuple(declined))
    return PassResult(
        replace(
            graph,
            body=_region(graph.body, replaced),
            models=tuple(models.get(model.name, model) for model in graph.models),
        ),
        True,
        tuple(declined),
    )


def _is_unread(index: int, sites: list[Node], uses: Uses) -> bool:
    return all(not uses.readers(call.outputs[index]) for call in sites)


def _tells(index: int, kept: list[int], model: ModelDef, sites: list[Node], uses: Uses) -> bool:
    """Tell whether the shape of an output alone tells a size that is checked."""
    signature = model.signature
    others = [field.type for field in signature.params]
    others += [signature.results[i].type for i in kept]
    checked = {dim for check in model.checks for dim in sizes_of(check)}
    if (sizes(signature.results[index].type) & checked) - _sizes(others):
        return True
    for call in sites:
        seen = [value.type for value in (*call.inputs, *(call.outputs[i] for i in kept))]
        if (sizes(call.outputs[index].type) & uses.checked) - _sizes(seen):
            return True
    return False


def _sizes(types: list[Type]) -> set[DimVar]:
    return {dim for type in types for dim in sizes(type)}


def _region(region: Region, replaced: dict[Node, Node]) -> Region:
    nodes: list[Node] = []
    for node in region.nodes:
        node = replaced.get(node, node)
        regions = tuple(_region(inner, replaced) for inner in node.regions)
        nodes.append(node if regions == node.regions else replace(node, regions=regions))
    return rebuilt(region, nodes, region.results)


PASS = Pass("drop_unread_outputs", Phase.FUSE, run)
