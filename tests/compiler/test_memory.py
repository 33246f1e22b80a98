"""The memory plan: offsets never overlap while alive, peaks and bounds are true."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.compiler.arena import ALIGNMENT, Buffer, assign_offsets, lower_bound
from headrace.compiler.graph import Settings, Value
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.memory import bytes_of, plan_memory
from headrace.compiler.passes.place_transfers import PASS
from headrace.dsl.types import DimVar, DType, ListType, OptionalType, TensorType, Type
from tests.compiler.make_graphs import GraphMaker


def kib(count: int) -> TensorType:
    """A tensor of so many KiB."""
    return TensorType(DType.U8, (count, 1024))


def buffer(size: int, first: int, length: int) -> Buffer:
    return Buffer("b", size, first, first + length)


buffers = st.lists(
    st.builds(
        buffer,
        st.integers(0, 5000),
        st.integers(0, 12),
        st.integers(0, 6),
    ),
    max_size=14,
)


@given(buffers)
def test_buffers_that_are_alive_together_never_overlap(found: list[Buffer]) -> None:
    arena = assign_offsets(found)
    placed = list(zip(found, arena.offsets, strict=True))
    for index, (left, at) in enumerate(placed):
        assert at % ALIGNMENT == 0
        assert at + left.size <= arena.peak
        for right, other in placed[:index]:
            apart = at + left.size <= other or other + right.size <= at
            assert apart or not left.meets(right)


@given(buffers)
def test_the_peak_is_between_the_lower_bound_and_no_reuse_at_all(found: list[Buffer]) -> None:
    arena = assign_offsets(found)
    assert arena.lower_bound == lower_bound(found)
    assert arena.lower_bound <= arena.peak <= sum(buffer.aligned for buffer in found)


@given(buffers)
def test_the_lower_bound_is_the_most_alive_at_a_step(found: list[Buffer]) -> None:
    steps = range(20)
    most = max(sum(b.aligned for b in found if b.first <= step <= b.last) for step in steps)
    assert lower_bound(found) == most


def test_the_best_of_four_orders_is_within_a_tenth_of_the_bound_on_random_graphs() -> None:
    random.seed(1)
    ratios = []
    for _ in range(20):
        count = random.choice([20, 60])
        found = []
        for _ in range(count):
            first = random.randrange(count)
            size = random.choice([4, 16, 64, 150, 600, 2400, 6144]) * 1024
            found.append(Buffer("b", size, first, first + random.randrange(1, 8)))
        arena = assign_offsets(found)
        ratios.append(arena.peak / arena.lower_bound)
    assert max(ratios) < 1.1
    assert sum(ratios) / len(ratios) < 1.02


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (TensorType(DType.F32, (3, 4)), 48),
        (TensorType(DType.BOOL), 1),
        (TensorType(DType.F16, (0, 7)), 0),
        (ListType(TensorType(DType.F64, (2,)), 10), 160),
        (OptionalType(TensorType(DType.I16, (5,))), 10),
        (ListType(TensorType(DType.F64, (2,))), None),
        (TensorType(DType.F32, (3, DimVar("H"))), None),
        (TensorType(DType.STRING), None),
    ],
    ids=str,
)
def test_the_bytes_of_a_type_are_known_or_none(type: Type, expected: int | None) -> None:
    assert bytes_of(type) == expected


def test_a_chain_needs_its_two_largest_neighbours(make: GraphMaker) -> None:
    x = make.param("x", kib(100))
    for size in (1, 8, 4, 2):
        x = make.op("core.f", x, type=kib(size))
    (memory,) = plan_memory(make.graph(x))
    assert (memory.device, memory.peak, memory.lower_bound) == ("cpu", 12 * 1024, 12 * 1024)
    assert memory.pipeline == "p"


def test_a_value_is_alive_until_its_last_reader(make: GraphMaker) -> None:
    x = make.param("x", kib(1))
    a = make.op("core.a", x, type=kib(4))
    b = make.op("core.b", a, type=kib(1))
    c = make.op("core.c", b, type=kib(1))
    (memory,) = plan_memory(make.graph(make.op("core.d", a, c, type=kib(1))))
    assert memory.lower_bound == 6 * 1024


def test_arms_share_memory_and_what_they_give_lives_on(make: GraphMaker) -> None:
    x, c = make.param("x", kib(1)), make.param("c", TensorType(DType.BOOL))
    (y,) = make.branch(
        c,
        lambda: [make.op("core.a", x, type=kib(8))],
        lambda: [make.op("core.b", x, type=kib(8))],
        kib(8),
    )
    z = make.op("core.c", y, type=kib(1))
    (memory,) = plan_memory(make.graph(z))
    assert memory.lower_bound == 17 * 1024  # both arms run when rows part; then one more


def test_what_a_loop_walks_is_alive_until_the_last_item_is_done(make: GraphMaker) -> None:
    x = make.param("x", kib(1))
    xs = make.op("core.split", x, type=ListType(kib(1), 10))

    def body(item: Value) -> list[Value]:
        return [make.op("core.b", make.op("core.a", item, type=kib(2)), type=kib(3))]

    (ys,) = make.each(xs, kib(1), body, ListType(kib(3), 10))
    (memory,) = plan_memory(make.graph(ys))
    assert memory.lower_bound == (10 + 20 + 30) * 1024


def test_every_device_has_its_own_peak(make: GraphMaker) -> None:
    x = make.param("x", kib(2))
    graph = make.graph(make.model("m", x, type=kib(3)), settings=Settings(device="sim"))
    cpu, sim = plan_memory(PASS.run(graph, PassContext()).graph)
    assert (cpu.device, cpu.peak) == ("cpu", 3 * 1024)
    assert (sim.device, sim.peak) == ("sim", 5 * 1024)


def test_a_batch_pipeline_holds_all_rows_at_once(make: GraphMaker) -> None:
    x = make.param("x", kib(1))
    (memory,) = plan_memory(make.graph(make.op("core.a", x, type=kib(2)), batch=16))
    assert memory.peak == 32 * 1024


def test_items_of_a_list_of_known_length_count_as_often(make: GraphMaker) -> None:
    xs = make.param("xs", ListType(kib(1), 10))
    (ys,) = make.each(
        xs, kib(1), lambda item: [make.op("core.a", item, type=kib(1))], ListType(kib(1), 10)
    )
    (memory,) = plan_memory(make.graph(ys))
    assert memory.peak == 10 * 1024


def test_values_of_unknown_size_are_named(make: GraphMaker) -> None:
    x = make.param("x", kib(1))
    a = make.op("image.decode", x, type=TensorType(DType.U8, (DimVar("H"), 3)))
    (memory,) = plan_memory(make.graph(make.op("core.b", a, type=kib(1))))
    assert memory.unplanned == ("image.decode",)
    assert memory.peak == 1024


def test_a_budget_is_kept_beside_the_peak_even_of_a_device_that_is_not_used(
    make: GraphMaker,
) -> None:
    x = make.param("x", kib(1))
    graph = make.graph(
        make.op("core.a", x, type=kib(1)), settings=Settings(memory=(("cpu", 5), ("sim", 7)))
    )
    assert [(m.device, m.budget, m.peak) for m in plan_memory(graph)] == [
        ("cpu", 5, 1024),
        ("sim", 7, 0),
    ]
