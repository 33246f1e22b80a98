"""What an arm of steps takes that may run beside others, and whether a hop to a thread is less.

Times come from the profile of the pipeline; without one, small ONNX models are told by what they
multiply. What waits in a queue, and what nothing is known of, is worth its hop. Ops alone never
are: most take less than a hop does, and what they make is at hand in the thread that made it.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

from .graph import For, FunctionCall, Graph, Loop, ModelCall, Node, Region
from .model_cost import multiply_adds
from .onnx_store import OnnxStore
from .profile import seconds_text
from .stage_settings import calls_out, device_of, settings_of

HOP_SECONDS: Final = 60e-6
"""From one thread to another and back into the one that goes on."""

ADD_SECONDS: Final = 50e-12
"""A multiply-add of a small model on one core."""


class ArmCost:
    """What nodes of one graph take."""

    def __init__(self, graph: Graph, store: OnnxStore) -> None:
        self._graph, self._store = graph, store
        self._took: dict[str, float] = {}
        if graph.profile is not None:
            self._took = {one.stage: one.seconds for one in graph.profile.of(graph.name)}

    def too_small(self, nodes: Sequence[Node]) -> str | None:
        """Return why nodes are not worth a hop; None when they are."""
        seconds = self._sum(nodes)
        if seconds is None or seconds > HOP_SECONDS:
            return None
        return (
            f"about {seconds_text(seconds)}, and a hop to another thread {HOP_SECONDS * 1e6:g} us"
        )

    def _sum(self, nodes: Iterable[Node]) -> float | None:
        """Return the seconds of nodes one after the other, None when some are not known."""
        return reduce(_plus, map(self._node, nodes), 0.0)

    def _node(self, node: Node) -> float | None:
        if node.regions:
            return self._regions(node)
        if not calls_out(node):
            return 0.0
        if self._waits(node):
            return None
        if node.stage in self._took:
            return self._took[node.stage]
        return None if isinstance(node.kind, FunctionCall) else self._model(node)

    def _waits(self, node: Node) -> bool:
        settings = settings_of(self._graph, node)
        given = (
            settings.batching,
            settings.queueing,
            settings.instances,
            settings.service.isolation,
        )
        return any(one is not None for one in given)

    def _regions(self, node: Node) -> float | None:
        if isinstance(node.kind, For | Loop) and not self._took:
            return None if any(map(holds_call, node.regions)) else 0.0
        return reduce(_plus, (self._sum(region.nodes) for region in node.regions), 0.0)

    def _model(self, node: Node) -> float | None:
        assert isinstance(node.kind, ModelCall)
        model = self._graph.model(node.kind.model)
        if model.backend == "kernel":  # ops, in one launch that is not waited for
            return 0.0
        if model.content is None or model.backend != "onnx":
            return None
        profile = self._graph.profile
        if profile is not None:
            times = profile.model(model.content.digest, device_of(self._graph, node))
            if times is not None:
                return times.alone
        adds = multiply_adds(model, self._store.proto(model.content))
        return None if adds is None else adds * ADD_SECONDS


def holds_call(region: Region) -> bool:
    """Whether a model or function is called in a region or in those in it."""
    return any(calls_out(node) or any(map(holds_call, node.regions)) for node in region.nodes)


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
