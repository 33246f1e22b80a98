"""Graphs to plans: slots, captures, literals, segments, checks, batch points."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.compiler.graph import Check, Graph, Settings, StageSettings
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.passes.place_transfers import PASS
from headrace.compiler.places import place_of
from headrace.compiler.plan import (
    Block,
    BranchStep,
    CallStep,
    CheckStep,
    EachStep,
    ModelSegment,
    OpSegment,
    Plan,
    PythonSegment,
    SwitchStep,
    TransferStep,
)
from headrace.compiler.planner import plan_pipeline
from headrace.compiler.policies import Batching, Queueing
from headrace.compiler.segments import Segments
from headrace.compiler.verify_plan import verify_plan
from headrace.dsl.source import Source, Span
from headrace.dsl.types import DimArith, DimVar, DType, ListType, TensorType
from tests.compiler.make_graphs import GraphMaker, only

F32 = TensorType(DType.F32, (3,))
BOOL = TensorType(DType.BOOL)
STRING = TensorType(DType.STRING)


def plan_of(*graphs: Graph) -> Plan:
    segments = Segments()
    pipelines = tuple(plan_pipeline(graph, segments, Path()).pipeline for graph in graphs)
    plan = Plan("0", pipelines, segments.all, (), (), (), segments.blobs)
    verify_plan(plan)
    return plan


def body_of(graph: Graph) -> Block:
    return plan_of(graph).pipelines[0].body


def segment_of(graph: Graph) -> ModelSegment:
    return only(ModelSegment, plan_of(graph).segments)


def test_steps_stand_in_the_order_of_the_source(make: GraphMaker) -> None:
    x = make.param("x", F32)
    b = make.op("core.b", make.op("core.a", x, type=F32), type=F32)
    plan = plan_of(make.graph(b))
    calls = [step for step in plan.pipelines[0].body.steps if isinstance(step, CallStep)]
    assert [plan.segments[call.segment].name for call in calls] == ["core.a", "core.b"]
    assert [step.place.line for step in plan.pipelines[0].body.steps] == [2, 3]
    assert plan.pipelines[0].body.steps[0].place.text == "line 2"


def test_a_slot_is_freed_after_the_step_that_reads_it_last(make: GraphMaker) -> None:
    x = make.param("x", F32)
    a = make.op("core.a", x, type=F32)
    b = make.op("core.b", a, type=F32)
    c = make.op("core.c", a, b, type=F32)
    body = body_of(make.graph(c))
    assert body.slots == 4
    assert body.last_uses == ((0,), (), (1, 2))


def test_a_result_is_never_freed_even_when_it_is_read(make: GraphMaker) -> None:
    x = make.param("x", F32)
    a = make.op("core.a", x, type=F32)
    b = make.op("core.b", a, type=F32)
    assert body_of(make.graph(a, b)).last_uses == ((0,), ())


def test_a_value_that_nobody_reads_is_freed_at_once(make: GraphMaker) -> None:
    x = make.param("x", F32)
    make.op("core.a", x, type=F32)
    assert body_of(make.graph(x)).last_uses == ((1,),)


def test_a_parameter_may_be_a_result(make: GraphMaker) -> None:
    x = make.param("x", F32)
    body = body_of(make.graph(x, x))
    assert (body.params, body.results, body.steps) == ((0,), (0, 0), ())


def test_literals_have_slots_and_no_step(make: GraphMaker) -> None:
    x = make.param("x", F32)
    two = make.constant(2.0, F32)
    body = body_of(make.graph(make.op("core.a", x, two, type=F32), two))
    assert body.constants == ((1, 2.0, F32),)
    assert body.results == (2, 1)
    assert len(body.steps) == 1


def test_a_literal_is_never_freed(make: GraphMaker) -> None:
    x = make.param("x", F32)
    body = body_of(make.graph(make.op("core.a", x, make.constant(2.0, F32), type=F32)))
    assert body.last_uses == ((0,),)


def test_a_literal_is_not_captured_but_stands_in_the_block_that_reads_it(make: GraphMaker) -> None:
    x, c = make.param("x", F32), make.param("c", BOOL)
    two = make.constant(2.0, F32)
    (y,) = make.branch(c, lambda: [make.op("core.a", x, two, type=F32)], lambda: [two], F32)
    step = only(BranchStep, body_of(make.graph(y)).steps)
    assert [literal for _, literal, _ in step.then.constants] == [2.0]
    assert step.then.captures == ((0, 0),)
    assert step.orelse.captures == ()
    assert step.orelse.results == (0,)


def test_a_value_used_two_blocks_further_in_is_captured_by_both(make: GraphMaker) -> None:
    x, xs, c = make.param("x", F32), make.param("xs", ListType(F32)), make.param("c", BOOL)
    (ys,) = make.each(
        xs,
        F32,
        lambda item: [*make.branch(c, lambda: [x], lambda: [item], F32)],
        ListType(F32),
    )
    body = body_of(make.graph(ys))
    each = only(EachStep, body.steps)
    branch = only(BranchStep, each.body.steps)
    assert {outer for outer, _ in each.body.captures} == {0, 2}
    assert branch.then.captures == ((dict(each.body.captures)[0], 0),)
    assert body.last_uses == ((0, 1, 2),)


def test_match_keeps_its_cases_and_its_default(make: GraphMaker) -> None:
    s, x = make.param("s", STRING), make.param("x", F32)
    (y,) = make.match(s, [("a", "b"), ("c",)], [lambda: [x], lambda: [x], lambda: [x]], F32)
    step = only(SwitchStep, body_of(make.graph(y)).steps)
    assert [values for values, _ in step.cases] == [("a", "b"), ("c",)]


def test_a_filtered_walk_gives_one_result_more_than_it_has_outputs(make: GraphMaker) -> None:
    xs = make.param("xs", ListType(F32))
    (ys,) = make.each(
        xs,
        F32,
        lambda item: [item, make.op("core.keep", item, type=BOOL)],
        ListType(F32),
        filtered=True,
    )
    step = only(EachStep, body_of(make.graph(ys)).steps)
    assert step.filtered
    assert (len(step.body.results), len(step.outputs)) == (2, 1)
    assert step.result_types == (ListType(F32),)


def test_copies_are_steps(make: GraphMaker) -> None:
    x = make.param("x", F32)
    graph = make.graph(make.model("m", x, type=F32), settings=Settings(device="sim"))
    body = body_of(PASS.run(graph, PassContext()).graph)
    assert [type(step) for step in body.steps] == [TransferStep, CallStep, TransferStep]
    assert [step.device for step in body.steps if isinstance(step, TransferStep)] == ["sim", "cpu"]


# ---- segments


def test_a_model_called_twice_is_one_segment(make: GraphMaker) -> None:
    x = make.param("x", F32)
    graph = make.graph(make.model("m", make.model("m", x, type=F32), type=F32))
    plan = plan_of(graph)
    assert len(plan.segments) == 1
    assert len(plan.pipelines[0].body.steps) == 2


def test_a_model_of_two_pipelines_is_one_segment_with_one_blob(make: GraphMaker) -> None:
    def graph(name: str, uid: int) -> Graph:
        maker = type(make)()
        dim = TensorType(DType.F32, (DimVar("N", uid),))
        x = maker.param("x", dim)
        where = (Check(DimArith("%", DimVar("N", uid), 32), "==", 0, "N % 32 == 0"),)
        return maker.graph(maker.model("m", x, type=dim, where=where), name=name)

    plan = plan_of(graph("p", 5), graph("q", 9))
    segment = only(ModelSegment, plan.segments)
    assert len(plan.blobs) == 1
    assert str(segment.signature) == "(x0: f32[N]) -> (y: f32[N])"
    size = DimVar("N", 0)
    assert segment.signature.params[0].type == TensorType(DType.F32, (size,))
    assert segment.checks[0].left == DimArith("%", size, 32)


def test_the_same_model_under_two_schedules_is_two_segments_with_one_blob(make: GraphMaker) -> None:
    x = make.param("x", F32)
    graph = make.graph(make.model("m", x, type=F32))
    settings = Settings(stages=(("m", StageSettings(batching=Batching(8))),))
    plan = plan_of(graph, replace(graph, name="q", settings=settings))
    models = [one for one in plan.segments if isinstance(one, ModelSegment)]
    assert [model.batching is None for model in models] == [True, False]
    assert len(plan.blobs) == 1


def test_an_op_is_named_by_its_full_name_and_keeps_its_result_types(make: GraphMaker) -> None:
    x = make.param("x", F32)
    plan = plan_of(make.graph(make.op("image.warp", x, type=F32)))
    segment = only(OpSegment, plan.segments)
    assert (segment.op, segment.results) == ("image.warp", (F32,))


def test_a_function_keeps_its_source_and_the_name_of_its_file(make: GraphMaker) -> None:
    x = make.param("x", F32)
    plan = plan_of(make.graph(make.function("quads", x, type=F32)))
    segment = only(PythonSegment, plan.segments)
    assert (segment.file, segment.attribute) == ("stages.py", "quads")
    assert plan.blob(segment.source) == b"def f(x): return x\n"


def test_places_name_files_from_the_folder_of_the_main_file(tmp_path: Path) -> None:
    source = Source("/somewhere/ocr.pipe", "a\nb c\n", tmp_path / "sub" / "ocr.pipe")
    place = place_of(Span(source, 4, 5), tmp_path / "sub")
    assert (place.file, place.line, place.column, place.text) == ("ocr.pipe", 2, 3, "b c")
    assert place_of(Span(source, 4, 5), tmp_path / "other").file == "../sub/ocr.pipe"


# ---- batch points


def test_nothing_batches_without_a_schedule(make: GraphMaker) -> None:
    x = make.param("x", F32)
    segment = segment_of(make.graph(make.model("m", x, type=F32)))
    assert (segment.batching, segment.group, segment.queueing) == (None, 1, None)


def test_a_schedule_puts_a_queue_before_a_stage(make: GraphMaker) -> None:
    x = make.param("x", F32)
    stage = StageSettings(
        batching=Batching(32, 0.001, (8, 16)), instances=2, queueing=Queueing(9, 0.5, "delay")
    )
    settings = Settings("server", (("m", stage),))
    segment = segment_of(make.graph(make.model("m", x, type=F32), settings=settings))
    assert segment.batching == Batching(32, 0.001, (8, 16))
    assert segment.queueing == Queueing(9, 0.5, "delay")
    assert segment.instances == 2


@pytest.mark.parametrize(
    ("batches", "off", "group"), [(True, False, 16), (False, False, 1), (True, True, 1)]
)
def test_rows_of_one_request_share_a_run_in_a_batch_pipeline(
    make: GraphMaker, batches: bool, off: bool, group: int
) -> None:
    x = make.param("x", F32)
    settings = Settings(stages=(("m", StageSettings(batching_off=off)),))
    model = make.model("m", x, type=F32, batches=batches)
    assert segment_of(make.graph(model, batch=16, settings=settings)).group == group


def test_a_fused_model_keeps_the_policy_of_its_member(make: GraphMaker) -> None:
    x = make.param("x", F32)
    settings = Settings(stages=(("b", StageSettings(batching=Batching(4))),))
    model = make.model("a", x, type=F32, members=("a", "b"))
    segment = segment_of(make.graph(model, settings=settings))
    assert segment.batching == Batching(4, 0.0, ())
    assert segment.members == ("a", "b")


def test_fusing_stages_of_different_policies_is_our_bug(make: GraphMaker) -> None:
    x = make.param("x", F32)
    settings = Settings(
        stages=(
            ("a", StageSettings(batching=Batching(4))),
            ("b", StageSettings(batching=Batching(8))),
        )
    )
    model = make.model("ab", x, type=F32, members=("a", "b"))
    with pytest.raises(AssertionError, match="different `batching`"):
        plan_of(make.graph(model, settings=settings))


# ---- checks of sizes


N, M = DimVar("N", 1), DimVar("M", 2)
EQUAL = Check(N, "==", M, "N == M")


def test_a_check_of_what_goes_in_comes_before_the_call_and_keeps_the_sizes_alive(
    make: GraphMaker,
) -> None:
    x = make.param("x", TensorType(DType.F32, (4, N)))
    make.param("y", TensorType(DType.F32, (M,)))
    a = make.op("core.a", x, type=F32)
    b = make.op("core.b", a, type=F32, checks=[EQUAL])
    body = body_of(make.graph(make.op("core.c", b, type=F32)))
    check = body.steps[1]
    assert isinstance(check, CheckStep)
    assert check.sizes == ((N, 0, 1), (M, 1, 0))
    assert (check.stage, check.check.text) == ("core.b", "N == M")
    assert body.last_uses == ((), (), (0, 1, 2), (3,))


def test_a_check_of_what_comes_out_comes_after_the_call(make: GraphMaker) -> None:
    x = make.param("x", TensorType(DType.F32, (M,)))
    a = make.op("core.a", x, type=TensorType(DType.F32, (N,)), checks=[EQUAL])
    body = body_of(make.graph(make.op("core.b", a, type=F32)))
    check = body.steps[1]
    assert isinstance(check, CheckStep)
    assert check.sizes == ((N, 1, 0), (M, 0, 0))


def test_a_check_within_a_block_captures_the_sizes_from_around_it(make: GraphMaker) -> None:
    x, c = make.param("x", TensorType(DType.F32, (N,))), make.param("c", BOOL)
    y = make.param("y", TensorType(DType.F32, (M,)))
    (z,) = make.branch(
        c, lambda: [make.op("core.a", y, type=F32, checks=[EQUAL])], lambda: [y], F32
    )
    step = only(BranchStep, body_of(make.graph(z, x)).steps)
    assert {outer for outer, _ in step.then.captures} == {0, 2}
    assert isinstance(step.then.steps[0], CheckStep)


def test_a_check_that_always_holds_is_no_step(make: GraphMaker) -> None:
    x = make.param("x", TensorType(DType.F32, (N,)))
    a = make.op("core.a", x, type=F32, checks=[Check(N, "==", N, "N == N")])
    assert len(body_of(make.graph(a)).steps) == 1
