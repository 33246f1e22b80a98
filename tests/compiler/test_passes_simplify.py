"""Folding constants, common subexpressions, dead code: before, after, and both are run."""

import re
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from headrace.compiler.explain_graph import explain_graph
from headrace.compiler.graph import Check, Constant, Graph, Value
from headrace.compiler.graph_pass import Pass, PassContext, PassResult
from headrace.compiler.passes.drop_dead_code import PASS as DROP
from headrace.compiler.passes.fold_constants import MAX_BYTES
from headrace.compiler.passes.fold_constants import PASS as FOLD
from headrace.compiler.passes.merge_common_subexpressions import PASS as SHARE
from headrace.compiler.verify import verify
from headrace.dsl.types import DimVar, DType, ListType, TensorType
from headrace.stdlib.op import Item
from tests.compiler.evaluate import Evaluator, double, equal, same
from tests.compiler.graphs import BOOL, F32, I64, STRING, Maker, layer, sizes, tensor

ROW = tensor(F32, 4)
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def make() -> Maker:
    return Maker()


def text(graph: Graph) -> str:
    """Return what explain prints of a graph, without the places."""
    lines = explain_graph(graph, Path.cwd()).splitlines()[1:]
    return "\n".join(
        re.sub(r"(?<=\S) +", " ", line.split("made.pipe")[0]).rstrip() for line in lines
    )


def body(graph: Graph) -> list[str]:
    return [node.stage for node in graph.body.nodes]


def applied(one: Pass, graph: Graph, *inputs: Item) -> PassResult:
    """Run a pass and check that the graph stays sound, done, and the same in its results."""
    verify(graph)
    result = one.run(graph, PassContext())
    verify(result.graph)
    assert not one.run(result.graph, PassContext()).changed
    functions = {"note": same, "double": double}
    before, after = Evaluator(functions), Evaluator(functions)
    wanted, got = before.run(graph, *inputs), after.run(result.graph, *inputs)
    assert all(map(equal, wanted, got))
    assert [c for c in before.calls if c == "note"] == [c for c in after.calls if c == "note"]
    return result


def test_an_op_of_constants_becomes_a_constant(make: Maker) -> None:
    x = make.param("x", tensor(I64, 4))
    scale = make.op("math.add", 2, 3)
    result = applied(FOLD, make.graph(make.op("math.mul", x, scale)), np.arange(4))
    (folded,) = [n for n in result.graph.body.nodes if n.outputs[0] is scale]
    assert folded.kind == Constant(np.array(5))


def test_a_folded_number_keeps_its_dtype_and_is_not_a_weak_literal(make: Maker) -> None:
    folded = make.op("core.cast", 3, DType.F64)
    result = applied(FOLD, make.graph(folded))
    kind = result.graph.body.nodes[-1].kind
    assert isinstance(kind, Constant)
    assert isinstance(kind.literal, np.ndarray)
    assert kind.literal.dtype == np.float64


def test_folding_goes_on_through_what_was_folded(make: Maker) -> None:
    value = make.op("math.mul", make.op("math.add", 2, 3), make.op("math.neg", 4))
    result = applied(FOLD, make.graph(value))
    assert all(isinstance(node.kind, Constant) for node in result.graph.body.nodes)


def test_an_op_that_raises_stays_and_raises_when_it_runs(make: Maker) -> None:
    graph = make.graph(make.op("math.div", make.literal(1), make.literal(0)))
    result = FOLD.run(graph, PassContext())
    assert not result.changed
    (declined,) = result.declined
    assert declined.reason == "`math.div` raises ZeroDivisionError: an integer is divided by zero"
    with pytest.raises(ZeroDivisionError):
        Evaluator().run(result.graph)


def test_a_large_result_of_small_arguments_is_not_carried_in_the_plan(make: Maker) -> None:
    result = applied(FOLD, make.graph(make.op("core.zeros", (200, 200), F32)))
    assert not result.changed
    assert str(200 * 200 * 4) in result.declined[0].reason
    assert MAX_BYTES < 200 * 200 * 4


def test_a_large_result_of_a_large_constant_is_folded(make: Maker) -> None:
    weights = make.literal(np.zeros((200, 200), np.float32))
    result = applied(FOLD, make.graph(make.op("math.neg", weights)))
    assert result.changed


def test_an_if_whose_condition_is_known_becomes_its_arm(make: Maker) -> None:
    x = make.param("x", ROW)
    (y,) = make.branch(
        make.op("math.gt", 2, 1),
        lambda: [make.op("math.neg", x)],
        lambda: [make.function("note", x, results=[ROW])[0]],
    )
    result = applied(FOLD, make.graph(make.op("math.abs", y)), ROWS[0])
    assert "if" not in body(result.graph)
    assert "math.neg" in body(result.graph)


def test_a_match_on_a_known_string_becomes_its_arm(make: Maker) -> None:
    x = make.param("x", ROW)
    (y,) = make.match(
        make.literal("zh"),
        [("en", "de"), ("zh",)],
        [
            lambda: [make.op("math.neg", x)],
            lambda: [make.op("math.abs", x)],
            lambda: [make.op("math.floor", x)],
        ],
    )
    result = applied(FOLD, make.graph(y), ROWS[0])
    assert [stage for stage in body(result.graph) if stage != "literal"] == ["math.abs"]


def test_a_known_if_within_a_for_is_taken_there(make: Maker) -> None:
    rows = make.param("rows", tensor(F32, 3, 4))

    def arms(item: Value) -> tuple[Value, ...]:
        return make.branch(make.literal(False), lambda: [item], lambda: [make.op("math.neg", item)])

    (out,) = make.each(rows, arms, [tensor(F32, 3, 4)])
    result = applied(FOLD, make.graph(out), ROWS)
    assert body(result.graph) == ["for"]
    assert "math.neg" in [n.stage for n in result.graph.body.nodes[0].regions[0].nodes]


def test_equal_ops_are_computed_once(make: Maker) -> None:
    x = make.param("x", ROW)
    y = make.op("math.add", make.op("math.mul", x, 2), make.op("math.mul", x, 2))
    result = applied(SHARE, make.graph(y), ROWS[0])
    assert text(result.graph) == dedent("""\
        %0 x f32[4]
        %1 math.mul(%0, 2) f32[4]
        %2 math.add(%1, %1) f32[4]
        -> %2""")


def test_equal_looking_literals_of_other_dtypes_stay_apart(make: Maker) -> None:
    x = make.param("x", tensor(F32))
    y = make.op("core.stack", 0, make.op("math.div", x, 0.0), make.op("math.div", x, -0.0))
    result = applied(SHARE, make.graph(y), np.float32(1))
    assert body(result.graph).count("math.div") == 2


def test_model_calls_and_pure_functions_are_shared_and_opaque_ones_are_not(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0))
    values = [make.call("m", x), make.call("m", x)]
    values += [make.function("double", x, results=[ROW], pure=True)[0] for _ in range(2)]
    values += [make.function("note", x, results=[ROW])[0] for _ in range(2)]
    result = applied(SHARE, make.graph(make.op("core.concat", 0, *values)), ROWS[0])
    stages = body(result.graph)
    assert (stages.count("m"), stages.count("double"), stages.count("note")) == (1, 1, 2)


def test_an_arm_uses_what_ran_before_it_and_gives_nothing_out(make: Maker) -> None:
    x, flag = make.param("x", ROW), make.param("flag", tensor(BOOL))
    outer = make.op("math.neg", x)
    (y,) = make.branch(
        flag,
        lambda: [make.op("math.add", make.op("math.neg", x), make.op("math.abs", x))],
        lambda: [make.op("math.abs", x)],
    )
    z = make.op("math.abs", x)
    graph = make.graph(make.op("core.concat", 0, outer, y, z))
    result = applied(SHARE, graph, ROWS[0], np.array(True))
    (branch,) = [n for n in result.graph.body.nodes if n.stage == "if"]
    assert [[n.stage for n in region.nodes] for region in branch.regions] == [
        ["math.abs", "math.add"],
        ["math.abs"],
    ]
    assert "math.abs" in body(result.graph)


def test_sizes_of_the_second_call_become_those_of_the_first(make: Maker) -> None:
    photo = make.param("photo", TensorType(DType.BYTES))
    first, second = (make.op("image.decode", photo) for _ in range(2))
    height = sizes(second)[0]
    assert isinstance(height, DimVar)
    assert height != sizes(first)[0]
    check = Check(height, "==", 2, "h == 2")
    y = make.op("core.transpose", second, (2, 0, 1), checks=[check])
    result = SHARE.run(make.graph(y, first), PassContext())
    verify(result.graph)
    last = result.graph.body.nodes[-1]
    assert last.inputs[0] is first
    assert last.checks[0].left == sizes(first)[0]
    assert sizes(last.outputs[0]) == (3, *sizes(first)[:2])


def test_what_feeds_nothing_goes_and_opaque_calls_stay(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0))
    make.define("unused", layer(1))
    make.op("math.neg", make.call("unused", x))
    make.function("note", x, results=[ROW])
    make.function("double", x, results=[ROW], pure=True)
    result = applied(DROP, make.graph(make.call("m", x)), ROWS[0])
    assert body(result.graph) == ["note", "m"]
    assert [model.name for model in result.graph.models] == ["m"]
    assert [function.name for function in result.graph.functions] == ["note"]


def test_outputs_that_nobody_reads_go_with_what_made_them(make: Maker) -> None:
    rows = make.param("rows", tensor(F32, 3, 4))

    def each(item: Value) -> list[Value]:
        kept = make.op("math.gt", make.op("core.max", item, 0, False), 4)
        return [make.op("math.neg", item), make.op("math.abs", item), kept]

    out = make.each(rows, each, [ListType(ROW), tensor(F32, "k", 4)], filtered=True)
    result = applied(DROP, make.graph(out[1]), ROWS)
    assert text(result.graph) == dedent("""\
        %0 rows f32[3, 4]
        %1 for %0 f32[k, 4]
            %2 item0 f32[4]
            %3 core.max(%2, 0, false) f32
            %4 math.gt(%3, 4) bool
            %5 math.abs(%2) f32[4]
            -> %5 when %4
        -> %1""")


def test_an_if_without_readers_stays_for_the_opaque_call_in_it(make: Maker) -> None:
    x, flag = make.param("x", ROW), make.param("flag", tensor(BOOL))
    make.branch(
        flag,
        lambda: [make.function("note", x, results=[ROW])[0]],
        lambda: [make.op("math.neg", x)],
    )
    result = applied(DROP, make.graph(x), ROWS[0], np.array(True))
    (branch,) = result.graph.body.nodes
    assert branch.outputs == ()
    assert [[n.stage for n in region.nodes] for region in branch.regions] == [["note"], []]


def test_a_for_keeps_a_list_that_only_its_length_matters_of(make: Maker) -> None:
    rows, others = make.param("rows", tensor(F32, 3, 4)), make.param("others", tensor(F32, 3, 4))
    (out,) = make.each(
        rows, lambda one: [make.op("math.neg", one)], [tensor(F32, 3, 4)], beside=(others,)
    )
    result = applied(DROP, make.graph(out), ROWS, ROWS)
    assert not result.changed


def test_strings_are_folded_and_compared(make: Maker) -> None:
    same = make.op("math.eq", make.literal("en"), make.literal("en"))
    result = applied(FOLD, make.graph(same, make.literal("x", STRING)))
    assert all(isinstance(node.kind, Constant) for node in result.graph.body.nodes)


def test_counts_stay_integers(make: Maker) -> None:
    result = applied(FOLD, make.graph(make.op("core.argmax", make.literal((1.0, 3.0)), 0, False)))
    kind = result.graph.body.nodes[-1].kind
    assert isinstance(kind, Constant)
    assert kind.literal == 1
    assert result.graph.body.results[0].type == tensor(I64)
