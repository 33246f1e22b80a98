"""Joined models run as their parts do."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from headrace.compiler.onnx_merge import Joint, Port, Wire, join


def branching(operator: str) -> onnx.ModelProto:
    """Return a model that does `operator` where x is positive, with nodes of common names."""
    arms = [
        helper.make_graph(
            [helper.make_node(kind, ["x"], [f"{arm}_y"], name="Same")],
            arm,
            [],
            [helper.make_tensor_value_info(f"{arm}_y", TensorProto.FLOAT, [2])],
        )
        for arm, kind in (("then", operator), ("else", "Identity"))
    ]
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], name="Same_0", keepdims=0),
        helper.make_node("Cast", ["most"], ["holds"], name="Same_1", to=TensorProto.BOOL),
        helper.make_node(
            "If", ["holds"], ["y"], name="Same_2", then_branch=arms[0], else_branch=arms[1]
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_parts_whose_nodes_have_the_same_names_can_be_joined() -> None:
    joined = join(
        Joint(
            (branching("Neg"), branching("Exp")),
            (Wire(Port(0, "y"), Port(1, "x")),),
            ((Port(0, "x"),),),
            (Port(0, "y"), Port(1, "y")),
        )
    )
    session = onnxruntime.InferenceSession(
        joined.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = {joined.input_names[0]: np.array([1, -2], np.float32)}
    first, second = map(np.asarray, session.run(list(joined.output_names), feeds))
    np.testing.assert_array_equal(first, [-1, 2])
    np.testing.assert_allclose(second, np.exp(np.array([-1, 2], np.float32)), rtol=1e-6)
