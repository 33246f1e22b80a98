"""Copies between devices: where they stand, and that there are no more than must be."""

from collections.abc import Callable

import pytest

from headrace.compiler.explain import crossings_of
from headrace.compiler.graph import (
    Graph,
    ModelCall,
    Region,
    Settings,
    StageSettings,
    Transfer,
    Value,
)
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.passes.place_transfers import PASS
from headrace.dsl.types import DType, ListType, TensorType
from tests.compiler.make_graphs import GraphMaker

F32 = TensorType(DType.F32, (3,))
BOOL = TensorType(DType.BOOL)
STRING = TensorType(DType.STRING)
ON_SIM = Settings(device="sim")


def copied_to(region: Region) -> list[str]:
    return [device for _, device in crossings_of(region)]


def place(graph: Graph) -> Graph:
    return PASS.run(graph, PassContext()).graph


def copies(graph: Graph) -> list[str]:
    return copied_to(place(graph).body)


def test_a_pipeline_on_the_cpu_needs_no_copy(make: GraphMaker) -> None:
    x = make.param("x", F32)
    graph = make.graph(make.model("m", x, type=F32))
    result = PASS.run(graph, PassContext())
    assert result.graph is graph
    assert not result.changed


def test_a_chain_on_a_device_is_one_copy_in_and_one_out(make: GraphMaker) -> None:
    x = make.param("x", F32)
    y = make.model("b", make.model("a", x, type=F32), type=F32)
    assert copies(make.graph(y, settings=ON_SIM)) == ["sim", "cpu"]


def test_a_stage_on_the_cpu_between_two_on_a_device_costs_two_copies_more(make: GraphMaker) -> None:
    x = make.param("x", F32)
    y = make.model("b", make.op("core.f", make.model("a", x, type=F32), type=F32), type=F32)
    assert copies(make.graph(y, settings=ON_SIM)) == ["sim", "cpu", "sim", "cpu"]


def test_the_device_of_a_stage_goes_before_that_of_the_pipeline(make: GraphMaker) -> None:
    x = make.param("x", F32)
    y = make.model("b", make.model("a", x, type=F32), type=F32)
    settings = Settings(device="sim", stages=(("b", StageSettings(device="cpu")),))
    placed = place(make.graph(y, settings=settings))
    assert [node.kind for node in placed.body.nodes] == [
        Transfer("sim"),
        ModelCall("a"),
        Transfer("cpu"),
        ModelCall("b"),
    ]


def test_a_fused_model_runs_where_its_member_was_put(make: GraphMaker) -> None:
    x = make.param("x", F32)
    y = make.model("ab", x, type=F32, members=("a", "b"))
    settings = Settings(stages=(("b", StageSettings(device="sim")),))
    assert copies(make.graph(y, settings=settings)) == ["sim", "cpu"]


def test_a_value_that_two_models_read_is_copied_once(make: GraphMaker) -> None:
    x = make.param("x", F32)
    a, b = make.model("a", x, type=F32), make.model("b", x, type=F32)
    assert copies(make.graph(a, b, settings=ON_SIM)) == ["sim", "cpu", "cpu"]


def test_a_result_that_leaves_twice_is_copied_once(make: GraphMaker) -> None:
    x = make.param("x", F32)
    a = make.model("a", x, type=F32)
    assert copies(make.graph(a, a, make.op("core.f", a, type=F32), settings=ON_SIM)) == [
        "sim",
        "cpu",
    ]


def test_a_value_that_only_one_arm_reads_is_copied_in_that_arm(make: GraphMaker) -> None:
    x, c = make.param("x", F32), make.param("c", BOOL)
    (y,) = make.branch(c, lambda: [make.model("a", x, type=F32)], lambda: [x], F32)
    placed = place(make.graph(y, settings=ON_SIM))
    (node,) = placed.body.nodes
    then, orelse = node.regions
    assert [n.kind for n in then.nodes if isinstance(n.kind, Transfer)] == [
        Transfer("sim"),
        Transfer("cpu"),
    ]
    assert orelse.nodes == ()


def test_a_value_read_in_an_arm_and_after_it_is_copied_once_before_both(make: GraphMaker) -> None:
    x, c = make.param("x", F32), make.param("c", BOOL)
    (y,) = make.branch(c, lambda: [make.model("a", x, type=F32)], lambda: [x], F32)
    z = make.model("b", x, type=F32)
    placed = place(make.graph(y, z, settings=ON_SIM))
    assert placed.body.nodes[0].kind == Transfer("sim")
    assert copied_to(placed.body).count("sim") == 1


def test_a_value_from_around_a_loop_is_copied_once_for_all_items(make: GraphMaker) -> None:
    x, xs = make.param("x", F32), make.param("xs", ListType(F32))
    (ys,) = make.each(xs, F32, lambda item: [make.model("a", item, x, type=F32)], ListType(F32))
    placed = place(make.graph(ys, settings=ON_SIM))
    copy, loop = placed.body.nodes
    assert copy.kind == Transfer("sim")
    assert copy.inputs == (placed.body.params[0],)
    assert copied_to(loop.regions[0]) == ["sim", "cpu"]


@pytest.mark.parametrize(
    ("turn", "copied"),
    [
        (("a",), ["sim", "cpu"]),
        ((), ["sim", "cpu"]),
        (("core.f",), ["sim", "cpu"]),  # the model behind it alone wants it there
        (("a", "core.f"), ["sim", "cpu", "sim", "cpu"]),
        (("core.f", "a"), ["sim", "cpu", "sim", "cpu"]),
    ],
)
def test_what_a_loop_carries_stays_where_it_is_read_and_made(
    turn: tuple[str, ...], copied: list[str], make: GraphMaker
) -> None:
    def body(carried: Value) -> Value:
        for name in turn:
            step = make.op if "." in name else make.model
            carried = step(name, carried, type=F32)
        return carried

    y = make.loop(make.param("x", F32), body, F32)
    placed = place(make.graph(make.model("b", y, type=F32), settings=ON_SIM))
    assert copied_to(placed.body) == copied
    assert PASS.run(placed, PassContext()).graph is placed


def test_a_loop_in_a_loop_carries_on_the_device_too(make: GraphMaker) -> None:
    x = make.param("x", F32)
    y = make.loop(
        x, lambda outer: make.loop(outer, lambda v: make.model("a", v, type=F32), F32), F32
    )
    assert copies(make.graph(y, settings=ON_SIM)) == ["sim", "cpu"]


def test_what_both_arms_leave_on_a_device_stays_there(make: GraphMaker) -> None:
    x, c = make.param("x", F32), make.param("c", BOOL)
    m = make.model("m", x, type=F32)
    (y,) = make.branch(
        c,
        lambda: [make.model("a", m, type=F32)],
        lambda: [make.model("b", m, type=F32)],
        F32,
    )
    assert copies(make.graph(make.model("n", y, type=F32), settings=ON_SIM)) == ["sim", "cpu"]


def test_what_both_arms_leave_on_a_device_is_copied_once_for_another_reader(
    make: GraphMaker,
) -> None:
    x, c = make.param("x", F32), make.param("c", BOOL)
    m = make.model("m", x, type=F32)
    (y,) = make.branch(
        c,
        lambda: [make.model("a", m, type=F32)],
        lambda: [make.model("b", m, type=F32)],
        F32,
    )
    n = make.model("n", y, type=F32)
    assert copies(make.graph(y, n, settings=ON_SIM)) == ["sim", "cpu", "cpu"]


def test_where_arms_differ_what_follows_decides(make: GraphMaker) -> None:
    x, c = make.param("x", F32), make.param("c", BOOL)
    m = make.model("m", x, type=F32)
    (y,) = make.branch(c, lambda: [make.op("core.f", x, type=F32)], lambda: [m], F32)
    graph = make.graph(make.model("n", y, type=F32), settings=ON_SIM)
    placed = place(graph)
    assert copied_to(placed.body) == ["sim", "sim", "cpu"]
    (branch,) = (node for node in placed.body.nodes if node.regions)
    assert copied_to(branch.regions[0]) == ["sim"]


def test_a_condition_made_on_a_device_is_brought_to_the_cpu(make: GraphMaker) -> None:
    x = make.param("x", F32)
    c = make.model("c", x, type=BOOL)
    (y,) = make.branch(c, lambda: [x], lambda: [x], F32)
    assert copies(make.graph(y, settings=ON_SIM)) == ["sim", "cpu"]


def test_strings_stay_on_the_cpu(make: GraphMaker) -> None:
    s = make.param("s", STRING)
    y = make.model("a", s, type=F32)
    t = make.model("b", y, type=STRING)
    assert copies(make.graph(t, settings=ON_SIM)) == []


def test_an_optional_input_left_out_is_not_copied(make: GraphMaker) -> None:
    x = make.param("x", F32)
    none = make.constant(None, F32)
    assert copies(make.graph(make.model("a", x, none, type=F32), settings=ON_SIM)) == [
        "sim",
        "cpu",
    ]


def test_placing_twice_changes_nothing(make: GraphMaker) -> None:
    x, xs, c = make.param("x", F32), make.param("xs", ListType(F32)), make.param("c", BOOL)
    (ys,) = make.each(
        xs,
        F32,
        lambda item: [
            *make.branch(c, lambda: [make.model("a", item, x, type=F32)], lambda: [item], F32)
        ],
        ListType(F32),
    )
    placed = place(make.graph(ys, make.model("b", x, type=F32), settings=ON_SIM))
    assert PASS.run(placed, PassContext()).graph is placed


def test_a_model_between_two_devices_is_reached_through_the_cpu_device_of_none(
    make: GraphMaker,
) -> None:
    x = make.param("x", F32)
    y = make.model("b", make.model("a", x, type=F32), type=F32)
    settings = Settings(
        stages=(("a", StageSettings(device="sim")), ("b", StageSettings(device="gpu:0")))
    )
    assert copies(make.graph(y, settings=settings)) == ["sim", "gpu:0", "cpu"]


@pytest.mark.parametrize("arms", [1, 2, 3])
def test_each_arm_that_reads_a_value_copies_it_itself(make: GraphMaker, arms: int) -> None:
    x, s = make.param("x", F32), make.param("s", STRING)

    def arm(index: int) -> Callable[[], list[Value]]:
        return lambda: [make.model(f"m{index}", x, type=F32) if index < arms else x]

    (y,) = make.match(s, [("a",), ("b",)], [arm(0), arm(1), arm(2)], F32)
    placed = place(make.graph(y, settings=ON_SIM))
    (node,) = (n for n in placed.body.nodes if n.regions)
    assert [copied_to(r).count("sim") for r in node.regions] == [1] * arms + [0] * (3 - arms)
