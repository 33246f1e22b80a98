"""What a merged model takes over of the files it is made of: opsets, weights, functions, arms."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from headrace.compiler.graph_pass import PassContext
from headrace.compiler.passes.merge_models import PASS
from headrace.dsl.types import Field, OptionalType, TensorType
from headrace.stdlib.op import Array
from tests.compiler.evaluate import Evaluator, equal
from tests.compiler.graphs import (
    Maker,
    SmallModel,
    layer,
    small_model,
)
from tests.compiler.merged import LINE, ROW, chain, merged, proto, reasons, stages


@pytest.fixture
def make() -> Maker:
    return Maker()


def test_a_model_that_is_called_twice_keeps_its_one_copy_of_weights(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    result = merged(make.graph(make.call("a", make.call("a", x))), LINE)
    assert reasons(result) == [
        "`a` and `a` stay two models: `a` is called in 2 places, and one copy of its weights "
        "serves all"
    ]


def test_equal_weights_are_kept_once(make: Maker) -> None:
    value = make.param("x", ROW)
    for i in range(3):
        make.define(f"m{i}", layer(7))
        value = make.call(f"m{i}", value)
    (model,) = merged(make.graph(value), LINE).graph.models
    assert len(proto(model).graph.initializer) == 1


def test_the_same_graph_gives_the_same_bytes() -> None:
    digests = set[str]()
    for _ in range(2):
        make = Maker()
        (model,) = PASS.run(make.graph(chain(make, 5)), PassContext()).graph.models
        assert model.content is not None
        digests.add(model.content.digest)
    assert len(digests) == 1


def test_models_of_different_opsets_meet_in_the_newer_one(make: Maker) -> None:
    x = make.param("x", ROW)
    axes = [helper.make_node("Unsqueeze", ["x"], ["u"], axes=[1])]
    axes += [helper.make_node("ReduceMax", ["u"], ["r"], axes=[1], keepdims=0)]
    axes += [helper.make_node("ReduceSum", ["u"], ["s"], axes=[1], keepdims=0)]
    axes += [helper.make_node("Softmax", ["x"], ["t"], axis=-1)]
    axes += [helper.make_node("Sum", ["r", "s", "t"], ["y"])]
    make.define("a", small_model(axes, {"x": ROW}, {"y": ROW}, opset=11))
    make.define("b", layer(1, opset=18))
    (model,) = merged(make.graph(make.call("b", make.call("a", x))), LINE).graph.models
    assert [(one.domain, one.version) for one in proto(model).opset_import] == [("", 18)]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (
            helper.make_node("Softmax", ["x"], ["y"]),
            "Softmax of opset 11 flattens its input, that of 13 does not",
        ),
        (
            helper.make_node("Dropout", ["x"], ["y"], ratio=0.5),
            "Dropout of opset 10 and of 13 differ in the attribute ratio",
        ),
    ],
)
def test_an_op_that_changed_its_meaning_keeps_its_opset(
    make: Maker, node: onnx.NodeProto, reason: str
) -> None:
    x = make.param("x", ROW)
    make.define("a", small_model([node], {"x": ROW}, {"y": ROW}, opset=11))
    make.define("b", layer(1, opset=13))
    result = merged(make.graph(make.call("b", make.call("a", x))), LINE)
    assert reasons(result) == [f"`a` and `b` stay several models: {reason}"]


def test_nothing_but_what_runs_is_kept(make: Maker) -> None:
    x = make.param("x", ROW)
    for i, name in enumerate("ab"):
        small = layer(i)
        small.proto.doc_string = "long"
        small.proto.metadata_props.append(onnx.StringStringEntryProto(key="k", value="v"))
        make.define(name, small)
    (model,) = merged(make.graph(make.call("b", make.call("a", x))), LINE).graph.models
    found = proto(model)
    assert (found.doc_string, len(found.metadata_props)) == ("", 0)
    assert found.producer_name == "headrace"


def test_a_model_with_arms_of_its_own_keeps_them(make: Maker) -> None:
    x = make.param("x", ROW)
    small = with_arms()
    make.define("a", small)
    make.define("b", small)
    make.define("c", layer(0))
    y = make.call("c", make.call("b", make.call("a", x)))
    for line in (LINE, -LINE - 5):
        assert stages(merged(make.graph(y), line).graph) == ["a+b+c"]


def with_arms() -> SmallModel:
    """x + w when the sum of x is above 0, else x - w; the arms use names of the outer graph."""

    def arm(op: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info("arm", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["x", "w"], ["arm"])], op, [], [out])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=arm("Add"), else_branch=arm("Sub")),
    ]
    weights: dict[str, Array] = {"w": LINE + 2, "zero": np.zeros((), np.float32)}
    return small_model(nodes, {"x": ROW}, {"y": ROW}, weights)


def test_functions_of_a_model_come_along(make: Maker) -> None:
    x = make.param("x", ROW)
    small = with_function("Add")
    make.define("a", small)
    make.define("b", small)
    (model,) = merged(make.graph(make.call("b", make.call("a", x))), LINE).graph.models
    assert len(proto(model).functions) == 1


def test_functions_of_one_name_and_two_meanings_keep_models_apart(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", with_function("Add"))
    make.define("b", with_function("Mul"))
    result = merged(make.graph(make.call("b", make.call("a", x))), LINE)
    assert reasons(result) == [
        "`a` and `b` stay several models: both define the function twice, each in its own way"
    ]


def with_function(op: str) -> SmallModel:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function(
        "own", "twice", ["p"], ["q"], [helper.make_node(op, ["p", "p"], ["q"])], opsets[:1]
    )
    small = small_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ROW}, {"y": ROW})
    graph = small.proto.graph
    graph.node[0].CopyFrom(helper.make_node("twice", ["x"], ["y"], domain="own"))
    made = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8)
    return replace(small, proto=made)


def test_an_input_left_out_keeps_its_models_own_default(make: Maker) -> None:
    x, none = make.param("x", ROW), make.literal(None, OptionalType(ROW))
    for name, default in (("a", 1), ("b", 2)):
        add = [helper.make_node("Add", ["x", "bias"], ["y"])]
        small = small_model(add, {"x": ROW, "bias": ROW}, {"y": ROW}, batch=False)
        small.proto.graph.initializer.append(
            numpy_helper.from_array(np.full(4, default, np.float32), "bias")
        )
        optional = (small.params[0], Field("bias", OptionalType(ROW)))
        make.define(name, replace(small, params=optional))
    y = make.call("b", make.call("a", x, none), none)
    result = merged(make.graph(y), LINE)
    assert stages(result.graph) == ["a+b"]
    assert equal(Evaluator().run(result.graph, LINE)[0], LINE + 3)


def test_old_models_whose_weights_are_inputs_too_merge(make: Maker) -> None:
    x = make.param("x", ROW)
    for i, name in enumerate("ab"):
        small = layer(i, opset=8)
        small.proto.ir_version = 3
        weight = helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 4])
        small.proto.graph.input.append(weight)
        make.define(name, small)
    (model,) = merged(make.graph(make.call("b", make.call("a", x))), LINE).graph.models
    assert [one.name for one in proto(model).graph.input] == ["0.x"]


def names(fields: Sequence[Field]) -> list[str]:
    return [field.name for field in fields]


def test_inputs_of_equal_names_get_different_ones(make: Maker) -> None:
    x, z = make.param("x", ROW), make.param("z", ROW)
    make.define("a", layer(0))
    add = [helper.make_node("Add", ["p", "x"], ["y"])]
    make.define("b", small_model(add, {"p": ROW, "x": ROW}, {"y": ROW}))
    (model,) = merged(make.graph(make.call("b", make.call("a", x), z)), LINE, LINE).graph.models
    assert names(model.signature.params) == ["x", "x_2"]
    assert isinstance(model.signature.params[1].type, TensorType)
