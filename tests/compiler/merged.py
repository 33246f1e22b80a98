"""What the tests of merging share: the pass run and compared, and what is seen of its result."""

import numpy as np
import onnx

from headrace.compiler.graph import (
    Graph,
    ModelDef,
    Value,
)
from headrace.compiler.graph_pass import PassContext, PassResult
from headrace.compiler.passes.merge_models import PASS
from headrace.compiler.verify import verify
from headrace.stdlib.op import Item
from tests.compiler.evaluate import Evaluator, equal, same
from tests.compiler.graphs import (
    F32,
    Maker,
    layer,
    tensor,
)

ROW = tensor(F32, 4)


LINE = np.arange(4, dtype=np.float32) - 1


FUNCTIONS = {"f": same, "g": same}


def merged(graph: Graph, *inputs: Item) -> PassResult:
    """Run the pass; the graph must stay sound, have nothing left to merge, and give the same."""
    result = PASS.run(graph, PassContext())
    verify(result.graph)
    assert not PASS.run(result.graph, PassContext()).changed
    wanted = Evaluator(FUNCTIONS).run(graph, *inputs)
    assert all(map(equal, wanted, Evaluator(FUNCTIONS).run(result.graph, *inputs)))
    return result


def stages(graph: Graph) -> list[str]:
    return [node.stage for node in graph.body.nodes if node.stage != "literal"]


def proto(model: ModelDef) -> onnx.ModelProto:
    assert model.content is not None
    found = onnx.ModelProto.FromString(model.content.content)
    onnx.checker.check_model(found, full_check=True)
    return found


def reasons(result: PassResult) -> list[str]:
    return [one.reason for one in result.declined]


def chain(make: Maker, count: int, size: int = 4) -> Value:
    value = make.param("x", tensor(F32, size))
    for i in range(count):
        make.define(f"m{i}", layer(i, size))
        value = make.call(f"m{i}", value)
    return value
