"""Makes ops around an ONNX model nodes of the model's own graph.

    a = image.normalize(page)      u8[h, w, 3] → f32
    b = image.to_chw(a)                                   becomes   heat = detect(page)
    heat = detect(b)               f32[3, h, w]

One call runs where three did, no intermediate leaves the model, and what crosses its border is
the smaller tensor. `glue_cluster.py` says which ops join. A model that is called in several
places is one copy of its weights and one queue, so the same ops must stand around each call; ops
that stand around some only stay outside, with a reason.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...stdlib.op import Decline
from ..glue_cluster import Cluster, Growth
from ..glue_model import Glued, glue
from ..graph import Graph, ModelCall, ModelDef, Node, Region
from ..graph_pass import Declined, Pass, PassContext, PassResult, Phase
from ..onnx_opset import default_opset
from ..rewrite import Uses, rebuilt
from ..stage_settings import settings_of


def run(graph: Graph, context: PassContext) -> PassResult:
    """Glue until nothing more joins: what one model leaves another may take."""
    changed = False
    while True:
        step = _Step(graph, context)
        new = step.run()
        if new is graph:
            return PassResult(graph, changed, tuple(step.declined))
        graph, changed = new, True


class _Step:
    """One look at every model of a graph."""

    def __init__(self, graph: Graph, context: PassContext) -> None:
        self.graph, self.context = graph, context
        self.uses = Uses(graph.body)
        self.taken: set[Node] = set()
        self.declined: list[Declined] = []
        self.replaced: dict[Node, Node] = {}
        self.models: dict[str, ModelDef] = {}

    def run(self) -> Graph:
        calls: dict[str, list[Node]] = {}
        for node in self.uses.order:
            if isinstance(node.kind, ModelCall):
                calls.setdefault(node.kind.model, []).append(node)
        models = {model.name: model for model in self.graph.models}
        for name, sites in calls.items():
            if models[name].backend == "onnx" and models[name].content is not None:
                self._model(models[name], sites)
        if not self.replaced:
            return self.graph
        return replace(
            self.graph,
            body=self._region(self.graph.body),
            models=tuple(self.models.get(model.name, model) for model in self.graph.models),
        )

    def _model(self, model: ModelDef, sites: Sequence[Node]) -> None:
        for call in sites:
            batching = settings_of(self.graph, call).batching
            if batching is not None and batching.padding is not None:
                reason = f"rows of different `{batching.padding.dim}` meet there"
                text = f"nothing joins `{model.name}`: {reason}, filled up as it declares"
                self.declined.append(Declined(call.stage, text, call.span))
                return
        clusters = [self._cluster(model, call) for call in sites]
        for wanted in _variants(clusters):
            try:
                glued = self._glued(model, wanted)
            except Decline as reason:
                self._decline(wanted, model, str(reason))
                continue
            self.models[model.name] = glued[0].model
            for cluster, one in zip(wanted, glued, strict=True):
                self.replaced[cluster.call] = one.call
                self.taken.update(cluster.ops)
            return

    def _cluster(self, model: ModelDef, call: Node) -> Cluster:
        assert model.content is not None
        opset = default_opset(self.context.models.proto(model.content))
        growth = Growth(self.graph, self.uses, call, model, opset, self.taken)
        cluster = growth.cluster()
        self.declined += growth.declined
        return cluster

    def _glued(self, model: ModelDef, clusters: Sequence[Cluster]) -> list[Glued]:
        """Return the model glued for each call; raises Decline unless it is the same for all."""
        glued = [glue(cluster, model, self.uses, self.context.models) for cluster in clusters]
        for cluster, one in zip(clusters, glued, strict=True):
            if one.model != glued[0].model:
                raise Decline(
                    f"it is also called at {cluster.call.span} with other steps around it, and "
                    "one copy of its weights serves all calls"
                )
        return glued

    def _decline(self, clusters: Iterable[Cluster], model: ModelDef, reason: str) -> None:
        for cluster in clusters:
            for node in cluster.ops:
                text = f"`{node.stage}` stays outside of `{model.name}`: {reason}"
                self.declined.append(Declined(node.stage, text, node.span))

    def _region(self, region: Region) -> Region:
        nodes: list[Node] = []
        for node in region.nodes:
            if node in self.taken:
                continue
            node = self.replaced.get(node, node)
            regions = tuple(self._region(inner) for inner in node.regions)
            nodes.append(node if regions == node.regions else replace(node, regions=regions))
        return rebuilt(region, nodes, region.results)


def _variants(clusters: Sequence[Cluster]) -> list[list[Cluster]]:
    """Return what to try in turn: all that joins, then one side only."""
    tries = [list(clusters)]
    if any(cluster.before and cluster.after for cluster in clusters):
        tries.append([replace(cluster, after=()) for cluster in clusters])
        tries.append([replace(cluster, before=()) for cluster in clusters])
    return [one for one in tries if any(cluster.ops for cluster in one)]


PASS = Pass("glue_into_models", Phase.FUSE, run)
