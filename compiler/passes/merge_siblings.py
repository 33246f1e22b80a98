"""Makes ONNX models that run side by side on one input one model.

    a = left(x)
    b = right(x)       becomes        a, b, c = `left+right+third`(x)
    c = third(x)

Six heads of one backbone run as one call, with the backbone. `sibling_groups.py` says which calls
join: those that feed different results only while they are small, because a caller who asks for
one result runs them all.
"""

from dataclasses import replace

from ..graph import Graph
from ..graph_pass import Pass, PassContext, PassResult, Phase
from ..merge_calls import merge_groups
from ..rewrite import Uses
from ..sibling_groups import Siblings


def run(graph: Graph, context: PassContext) -> PassResult:
    """Merge until nothing more joins: models that siblings feed are siblings then."""
    changed = False
    while True:
        uses = Uses(graph.body)
        step = merge_groups(graph, uses, Siblings(graph, uses, context.models), context)
        if not step.changed:
            return replace(step, changed=changed)
        graph, changed = step.graph, True


PASS = Pass("merge_siblings", Phase.FUSE, run, after=("merge_models",))
