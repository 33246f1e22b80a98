"""Which passes there are, and in what order they run."""

import pytest

from headrace.compiler.graph import Graph
from headrace.compiler.graph_pass import Pass, PassContext, PassResult, Phase
from headrace.compiler.optimize import load_passes, optimize, ordered
from tests.compiler.graphs import F32, Maker, layer, tensor


def nothing(graph: Graph, _context: PassContext) -> PassResult:
    return PassResult(graph, False)


def test_the_passes_run_in_this_order() -> None:
    assert [(one.phase.name, one.name) for one in load_passes()] == [
        ("SIMPLIFY", "fold_constants"),
        ("SIMPLIFY", "merge_common_subexpressions"),
        ("SIMPLIFY", "drop_dead_code"),
        ("FUSE", "drop_unread_outputs"),
        ("FUSE", "glue_into_models"),
        ("FUSE", "merge_models"),
        ("FUSE", "merge_siblings"),
        ("FUSE", "generate_kernels"),
        ("PLACE", "choose_backends"),
        ("PLACE", "place_transfers"),
        ("OVERLAP", "run_together"),
    ]


def test_after_counts_more_than_the_name_and_the_phase_more_than_both() -> None:
    passes = [
        Pass("a", Phase.FUSE, nothing, after=("c",)),
        Pass("b", Phase.SIMPLIFY, nothing),
        Pass("c", Phase.FUSE, nothing),
    ]
    assert [one.name for one in ordered(passes)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ([Pass("a", Phase.FUSE, nothing), Pass("a", Phase.PLACE, nothing)], "two passes"),
        ([Pass("a", Phase.FUSE, nothing, after=("z",))], "`a` runs after `z`"),
        (
            [
                Pass("a", Phase.FUSE, nothing, after=("b",)),
                Pass("b", Phase.FUSE, nothing, after=("a",)),
            ],
            "wait for each other",
        ),
    ],
)
def test_an_impossible_order_is_refused(passes: list[Pass], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ordered(passes)


def test_the_log_tells_what_each_pass_did_and_declined() -> None:
    make = Maker()
    x = make.param("x", tensor(F32, 4))
    make.define("m", layer(0))
    y = make.op("math.neg", make.call("m", x))
    noted = make.function("note", y, results=[y.type])[0]
    optimized = optimize(make.graph(y, noted))
    assert [run.name for run in optimized.log] == [one.name for one in load_passes()]
    assert {run.name for run in optimized.log if run.changed} == {"glue_into_models"}
    assert optimized.log[-1].graph is optimized.graph


def test_a_declined_rule_names_the_stages() -> None:
    make = Maker()
    x = make.param("x", tensor(F32, 4))
    make.define("m", layer(0))
    y = make.call("m", x)
    optimized = optimize(make.graph(y, make.op("math.neg", y)))
    ((name, declined),) = optimized.declined
    assert name == "glue_into_models"
    assert declined.stage == "math.neg"
    assert declined.reason == "`math.neg` stays outside of `m`: `y` is also a result"


def test_one_set_of_passes_can_be_run_alone() -> None:
    make = Maker()
    make.op("math.neg", make.param("x", tensor(F32, 4)))
    graph = make.graph(make.params[0])
    assert optimize(graph, []).graph is graph
    assert isinstance(PassContext(), PassContext)
