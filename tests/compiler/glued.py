"""What the tests of gluing share: the pass run and compared, and what is seen of its result."""

import numpy as np
import onnx

from headrace.compiler.graph import (
    Graph,
    ModelDef,
    Value,
)
from headrace.compiler.graph_pass import PassContext, PassResult
from headrace.compiler.passes.glue_into_models import PASS
from headrace.compiler.verify import verify
from headrace.stdlib.op import Item
from tests.compiler.evaluate import Evaluator, equal, same
from tests.compiler.graphs import (
    F32,
    U8,
    Maker,
    tensor,
)

ROW = tensor(F32, 4)


PAGE = np.random.default_rng(0).integers(0, 256, (6, 5, 3)).astype(np.uint8)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LINE = np.arange(4, dtype=np.float32) - 1


def glued(graph: Graph, *inputs: Item) -> PassResult:
    """Run the pass; the graph must stay sound, have nothing left to glue, and give the same."""
    result = PASS.run(graph, PassContext())
    verify(result.graph)
    assert not PASS.run(result.graph, PassContext()).changed
    before, after = Evaluator(FUNCTIONS), Evaluator(FUNCTIONS)
    assert all(map(equal, before.run(graph, *inputs), after.run(result.graph, *inputs)))
    assert after.calls == before.calls
    return result


FUNCTIONS = {"f": same}


def stages(graph: Graph) -> list[str]:
    return [node.stage for node in graph.body.nodes if node.stage != "literal"]


def model(graph: Graph) -> ModelDef:
    (found,) = graph.models
    return found


def nodes(definition: ModelDef) -> list[str]:
    assert definition.content is not None
    proto = onnx.ModelProto.FromString(definition.content.content)
    onnx.checker.check_model(proto, full_check=True)
    return [node.op_type for node in proto.graph.node]


def reasons(result: PassResult) -> list[str]:
    return [one.reason for one in result.declined]


def page_of(make: Maker) -> Value:
    return make.param("page", tensor(U8, make.size("h"), make.size("w"), 3))


def ready(make: Maker, page: Value) -> Value:
    """Return the page as a network wants it."""
    return make.op("image.to_chw", make.op("image.normalize", page, MEAN, STD))
