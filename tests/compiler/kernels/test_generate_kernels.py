"""Which ops become kernels: those that save copies, with nothing between them, and why."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from onnx import helper

from headrace.compiler.explain_graph import explain_graph
from headrace.compiler.graph import Graph, If, ModelCall, Settings, StageSettings, Value
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.kernel_file import read
from headrace.compiler.kernels.chains import MOST_OPS
from headrace.compiler.optimize import optimize
from headrace.compiler.passes.generate_kernels import PASS
from headrace.compiler.rewrite import walk
from headrace.compiler.verify import verify
from headrace.dsl.types import DType, TensorType
from tests.compiler.graphs import SOURCE, Maker, SmallModel, layer, small_model, tensor

ROW = tensor(DType.F32, 4)


@pytest.fixture
def maker() -> Maker:
    made = Maker()
    for seed, name in enumerate(("a", "b", "c")):
        made.define(name, layer(seed))
    return made


def kernels(graph: Graph, *devices: str) -> list[tuple[str, ...]]:
    """Run the pass over a graph with all its models on a device, or each on its own; return what
    the kernels are made of."""
    stages = tuple(
        (name, StageSettings(device=device)) for name, device in zip("abc", devices, strict=False)
    )
    settings = Settings(device=None if devices else "sim", stages=stages)
    result = PASS.run(replace(graph, settings=settings), PassContext())
    verify(result.graph)
    assert PASS.run(result.graph, PassContext()).graph is result.graph
    return [model.members for model in result.graph.models if model.backend == "kernel"]


def elementwise(size: int) -> SmallModel:
    row = tensor(DType.F32, size)
    return small_model([helper.make_node("Neg", ["x"], ["y"])], {"x": row}, {"y": row})


def chain(maker: Maker, value: Value, *names: str) -> Value:
    for name in names:
        value = maker.op(f"math.{name}", value)
    return value


def test_a_chain_between_two_models_of_a_device_is_one_kernel(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    graph = maker.graph(maker.call("b", chain(maker, x, "neg", "abs", "floor")))
    assert kernels(graph) == [("math.neg", "math.abs", "math.floor")]
    assert kernels(graph, "cpu", "cpu") == []
    assert kernels(graph, "sim", "cpu") == []
    assert kernels(graph, "sim", "sim:1") == []


def test_ops_at_the_border_stay_on_the_cpu(maker: Maker) -> None:
    x = chain(maker, maker.param("x", ROW), "neg")
    assert kernels(maker.graph(chain(maker, maker.call("a", x), "abs"))) == []


def test_what_the_cpu_reads_as_well_saves_only_the_copy_back(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    y = chain(maker, x, "neg")
    assert kernels(maker.graph(maker.call("b", y), x)) == [("math.neg",)]
    assert kernels(maker.graph(maker.call("b", y), y, x)) == []


def test_a_chain_that_needs_more_of_the_cpu_than_it_saves_stays_there(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    others = [maker.param(f"p{i}", ROW) for i in range(2)]
    for one in others:
        x = maker.op("math.add", x, one)
    assert kernels(maker.graph(maker.call("b", x))) == []


def test_chains_that_only_save_together_are_on_the_device_together(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    wide = maker.op("math.neg", x)
    sums = maker.op("core.sum", wide, -1, True)  # a chain reduces once
    back = maker.op("math.sub", wide, sums)
    assert kernels(maker.graph(maker.call("b", back))) == [
        ("math.neg",),
        ("core.sum",),
        ("math.sub",),
    ]


def test_what_has_to_run_between_parts_a_chain(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    first = chain(maker, x, "neg")
    through = maker.call("b", first)
    last = maker.op("math.add", first, through)
    assert kernels(maker.graph(maker.call("c", last))) == [("math.neg",), ("math.add",)]


def test_two_chains_never_wait_for_each_other(maker: Maker) -> None:
    x, y = maker.call("a", maker.param("x", ROW)), maker.call("a", maker.param("y", ROW))
    a, c = maker.op("math.neg", x), maker.op("math.abs", y)
    b, d = maker.op("math.sub", a, c), maker.op("math.add", c, a)
    one, other = maker.op("math.mul", a, d), maker.op("math.maximum", b, c)
    found = kernels(maker.graph(maker.call("b", one), maker.call("c", other)))
    assert sorted(name for members in found for name in members) == sorted(
        ["math.neg", "math.abs", "math.sub", "math.add", "math.mul", "math.maximum"]
    )


def test_values_of_other_shapes_are_kernels_of_their_own(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    least = maker.op("math.neg", maker.op("core.min", x, -1, True))
    spread = maker.op("math.add", x, least)
    found = kernels(maker.graph(maker.call("b", spread)))
    assert found == [("core.min", "math.neg"), ("math.add",)]


def test_a_long_chain_is_several_kernels_on_the_device(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    graph = maker.graph(maker.call("b", chain(maker, x, *["neg"] * (MOST_OPS + 3))))
    assert list(map(len, kernels(graph))) == [MOST_OPS, 3]


def test_an_arm_is_looked_at_by_itself(maker: Maker) -> None:
    flag, x = maker.param("flag", TensorType(DType.BOOL)), maker.param("x", ROW)

    def arm() -> Sequence[Value]:
        return [maker.call("b", chain(maker, maker.call("a", x), "neg", "floor"))]

    (result,) = maker.branch(flag, arm, lambda: [x])
    graph = maker.graph(result)
    assert kernels(graph) == [("math.neg", "math.floor")]
    assert any(isinstance(node.kind, If) for node in walk(graph.body))


def declined(graph: Graph) -> list[str]:
    result = PASS.run(replace(graph, settings=Settings(device="sim")), PassContext())
    return [one.reason for one in result.declined]


def test_an_op_without_a_kernel_says_so(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    best = maker.op("core.cast", maker.op("core.argmax", x, 0, True), DType.F32)
    graph = maker.graph(maker.call("b", maker.op("math.add", x, best)))
    assert declined(graph) == [
        "`core.argmax` is no part of a kernel: it is not computed element by element"
    ]


def test_a_divisor_that_may_be_zero_is_left_to_the_cpu(maker: Maker) -> None:
    whole = maker.op("core.cast", maker.call("a", maker.param("x", ROW)), DType.I32)
    ratio = maker.op("core.cast", maker.op("math.div", whole, whole), DType.F32)
    assert declined(maker.graph(maker.call("b", ratio))) == [
        "`math.div` is no part of a kernel: an integer divisor made at run time may be zero, of "
        "which it could not tell"
    ]


def test_large_literals_and_large_reductions_are_left_to_the_cpu(maker: Maker) -> None:
    x = maker.param("x", tensor(DType.F32, 5000))
    maker.define("wide", elementwise(5000))
    made = maker.call("wide", x)
    added = maker.op("math.add", made, (0.5,) * 5000)
    total = maker.op("math.sub", made, maker.op("core.sum", made, -1, True))
    graph = maker.graph(maker.call("wide", added), maker.call("wide", total))
    assert declined(graph) == [
        "`math.add` is no part of a kernel: a literal of 5000 elements is too large for the text "
        "of code",
        "`core.sum` is no part of a kernel: it reduces 5000 elements, and a kernel 1 to 4096",
    ]


def test_explain_says_why_it_is_a_kernel(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    whole = maker.op("math.shift_right", maker.op("core.cast", x, DType.I32), 1)
    graph = maker.graph(maker.call("b", maker.op("core.cast", whole, DType.F32)))
    optimized = optimize(replace(graph, settings=Settings(device="sim"))).graph
    text = explain_graph(optimized, SOURCE.directory, placed=True)
    (header,) = [line for line in text.splitlines() if "· kernel ·" in line]
    assert header.startswith(
        "-- segment kernel1 · kernel · core.cast + math.shift_right (2 copies fewer than on the "
        "CPU; `core.cast` stays outside of `a`: ONNX leaves f32 beyond i32 undefined; "
        "`math.shift_right` stays outside of `b`: it has no ONNX form)"
    )


def test_equal_chains_are_equal_to_the_byte(maker: Maker) -> None:
    x = maker.call("a", maker.param("x", ROW))
    one, other = (chain(maker, x, "neg", "abs") for _ in range(2))
    graph = maker.graph(maker.call("b", one), maker.call("c", other))
    result = PASS.run(replace(graph, settings=Settings(device="sim")), PassContext()).graph
    contents = [m.content for m in result.models if m.backend == "kernel"]
    assert len(contents) == 2
    assert contents[0] == contents[1]
    assert contents[0] is not None
    assert "neg" in read(contents[0].content).text


def test_names_of_stages_are_not_taken(maker: Maker) -> None:
    maker.define("kernel1", layer(5))
    x = maker.call("a", maker.call("kernel1", maker.param("x", ROW)))
    graph = maker.graph(maker.call("b", chain(maker, x, "neg")))
    result = PASS.run(replace(graph, settings=Settings(device="sim")), PassContext()).graph
    called = [node.kind.model for node in result.body.nodes if isinstance(node.kind, ModelCall)]
    assert called == ["kernel1", "a", "kernel2", "b"]
