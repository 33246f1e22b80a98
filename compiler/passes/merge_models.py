"""Makes ONNX models that feed each other one model.

    a = m0(x)
    b = m1(a)        becomes        b = `m0+m1`(x)

A chain of ten runs as one call, and what flows inside never leaves the runtime that runs it.
`merge_groups.py` says which calls join, `merge_calls.py` makes one model of them. A value inside
that others read too becomes one more output.
"""

from ..graph import Graph
from ..graph_pass import Pass, PassContext, PassResult, Phase
from ..merge_calls import merge_groups
from ..merge_groups import Feeding
from ..rewrite import Uses


def run(graph: Graph, context: PassContext) -> PassResult:
    uses = Uses(graph.body)
    return merge_groups(graph, uses, Feeding(graph, uses), context)


PASS = Pass("merge_models", Phase.FUSE, run, after=("glue_into_models",))
