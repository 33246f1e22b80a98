"""Explain: the text of graphs and plans, and what passes declined."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.compiler.explain import ExplainError, explain, explain_plan, why_not
from headrace.compiler.explain_graph import explain_graph
from headrace.compiler.graph import Check, Graph, Settings, StageSettings, Value
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.memory import plan_memory
from headrace.compiler.passes.place_transfers import PASS
from headrace.compiler.plan import Declined, Place, Plan
from headrace.compiler.plan_text import literal_text
from headrace.compiler.policies import (
    Batching,
    Isolation,
    Priorities,
    Queueing,
    Sequencing,
    Service,
)
from headrace.compiler.policy_text import BY_DEFAULT
from headrace.dsl.types import DimVar, DType, ListType, TensorType
from headrace.stdlib.op import Literal
from tests.compiler.make_graphs import GraphMaker

FACE = TensorType(DType.F32, (3,))
BOX = TensorType(DType.F32, (4, 2))
BOOL = TensorType(DType.BOOL)


def u8(uid: int) -> TensorType:
    return TensorType(DType.U8, (DimVar("H", uid), DimVar("W", uid), 3))


@pytest.fixture
def graph(make: GraphMaker) -> Graph:
    """Decode, detect on `sim`, then a loop with a branch and a match."""
    photo = make.param("photo", TensorType(DType.BYTES))
    language = make.param("language", TensorType(DType.STRING))
    image = make.op("image.decode", photo, type=u8(1))
    page = make.op("image.fit", image, make.constant(960, TensorType(DType.I64)), type=u8(2))
    check = Check(DimVar("H", 2), "==", DimVar("H", 1), "H == H")
    heat = make.model("detect", page, type=FACE, members=("image.to_chw", "detect"), checks=[check])
    boxes = make.function("quads", heat, type=ListType(BOX, 1000))

    def body(box: Value) -> list[Value]:
        crop = make.op("image.warp", image, box, type=FACE)
        turned = make.model("angle", crop, type=BOOL, batches=False)
        (upright,) = make.branch(
            turned,
            lambda: [make.op("image.rotate180", crop, type=FACE)],
            lambda: [crop],
            FACE,
        )
        (line,) = make.match(
            language,
            [("en", "de"), ("zh",)],
            [lambda: [upright], lambda: [crop], lambda: [make.constant(2.5, FACE)]],
            FACE,
        )
        text = make.model("read", line, type=FACE)
        return [text, make.op("core.any", text, type=BOOL)]

    (lines,) = make.each(boxes, BOX, body, ListType(FACE), filtered=True)
    settings = Settings(
        "server",
        (
            ("detect", StageSettings(device="sim")),
            ("read", StageSettings(batching=Batching(16, 0.002, (8, 16)))),
        ),
        memory=(("cpu", 900 << 20),),
    )
    return make.graph(lines, settings=settings)


LOWERED = """\
pipeline p(photo: bytes, language: string) -> (r0: list<f32[3]>)
%0 photo                         bytes                  a.pipe:1
%1 language                      string                 a.pipe:2
%2 image.decode(%0)              u8[H, W, 3]            a.pipe:3
%3 image.fit(%2, 960)            u8[H'2, W'2, 3]        a.pipe:5
%4 detect(%3)                    f32[3]                 a.pipe:6
    check H == H
%5 quads(%4)                     list<f32[4, 2], 1000>  a.pipe:7
%6 for %5                        list<f32[3]>           a.pipe:17
    %7 item                      f32[4, 2]              a.pipe:8
    %8 image.warp(%2, %7)        f32[3]                 a.pipe:9
    %9 angle(%8)                 bool                   a.pipe:10
    %10 if %9                    f32[3]                 a.pipe:12
        %11 image.rotate180(%8)  f32[3]                 a.pipe:11
        -> %11
    else
        -> %8
    %12 match %1                 f32[3]                 a.pipe:14
    case "en" | "de"
        -> %10
    case "zh"
        -> %8
    else
        -> 2.5
    %13 read(%12)                f32[3]                 a.pipe:15
    %14 core.any(%13)            bool                   a.pipe:16
    -> %13 when %14
-> %6
"""

PLANNED = """\
pipeline p(photo: bytes, language: string) -> (r0: list<f32[3]>)
%0 photo                          bytes                       a.pipe:1
%1 language                       string                      a.pipe:2
%2 image.decode(%0)               u8[H, W, 3]            cpu  a.pipe:3
%3 image.fit(%2, 960)             u8[H'2, W'2, 3]        cpu  a.pipe:5
%4 copy %3 to sim                 u8[H'2, W'2, 3]        sim  a.pipe:6
-- segment detect · onnx · image.to_chw + detect · batch off (no schedule asks for it; on a CPU \
batching often loses) --
%5 detect(%4)                     f32[3]                 sim  a.pipe:6
    check H == H
%6 copy %5 to cpu                 f32[3]                 cpu  a.pipe:7
-- segment quads · python · stages.py:quads · batch off (the function takes one item) --
%7 quads(%6)                      list<f32[4, 2], 1000>  cpu  a.pipe:7
%8 for %7                         list<f32[3]>                a.pipe:17
    %9 item                       f32[4, 2]                   a.pipe:8
    %10 image.warp(%2, %9)        f32[3]                 cpu  a.pipe:9
    -- segment angle · onnx · angle · batch off (the model has no batch axis) --
    %11 angle(%10)                bool                   cpu  a.pipe:10
    %12 if %11                    f32[3]                      a.pipe:12
        %13 image.rotate180(%10)  f32[3]                 cpu  a.pipe:11
        -> %13
    else
        -> %10
    %14 match %1                  f32[3]                      a.pipe:14
    case "en" | "de"
        -> %12
    case "zh"
        -> %10
    else
        -> 2.5
    -- segment read · onnx · read · batch up to 16, wait 2 ms, prefer [8, 16] (schedule \
'server') --
    %15 read(%14)                 f32[3]                 cpu  a.pipe:15
    %16 core.any(%15)             bool                   cpu  a.pipe:16
    -> %15 when %16
-> %8
"""


def test_a_graph_is_one_line_a_node_with_its_regions_indented(graph: Graph) -> None:
    assert explain_graph(graph, Path()) == LOWERED


def test_a_plan_shows_segments_devices_copies_and_memory(graph: Graph) -> None:
    placed = PASS.run(graph, PassContext()).graph
    text = explain_plan(placed, plan_memory(placed), Path())
    *_, last = text.splitlines()
    assert text == f"{PLANNED}{BY_DEFAULT}\n{last}\n"
    assert last == (
        "segments 4 · copies 1 in, 1 out"
        " · peak cpu 66.5 KiB of 900 MiB (lower bound 66.5) · peak sim 256 B (lower bound 256)"
        " · size known when made: image.decode, image.fit"
    )


def test_a_plan_says_how_it_and_each_stage_are_served(make: GraphMaker) -> None:
    x = make.param("x", FACE)
    y = make.model("read", x, type=FACE)
    y = make.function("clean", y, type=FACE)
    queueing = Queueing(64, 0.5, "delay", True, ((3, Queueing(16, 0.05)),))
    service = Service(Priorities(3, 2), 64 << 20, resources=(("dsp", 1),), cpus=(0, 1), threads=1)
    read = StageSettings(Batching(16), instances=2, queueing=queueing, service=service, warmed=True)
    clean = StageSettings(instances=2, service=Service(isolation=Isolation(2 << 30, 5.0)))
    settings = Settings(
        "server",
        (("read", read), ("clean", clean)),
        queueing=Queueing(8, override=True),
        priority=Priorities(3, 2),
        sequencing=Sequencing("oldest", 100, 8),
        resources=(("dsp", 2),),
    )
    graph = make.graph(y, settings=settings)
    lines = explain_plan(graph, (), Path()).splitlines()
    assert lines[3] == (
        "--   instances 2 · queue 64, delay after 500 ms or as a request says; of priority 3 16,"
        " reject after 50 ms · priorities 1 to 3, else 2 · cache 64 MiB · warm-up 1, 16 rows"
        " · resources dsp 1 · threads 1 · cpus 0, 1 --"
    )
    assert lines[6] == "--   instances 2 · own process, 2 GiB, 5 s a run --"
    assert lines[9] == (
        "queue 8, reject or as a request says · priorities 1 to 3, else 2 · sequences oldest first,"
        " at most 100, 8 more wait · resources dsp 2 (schedule 'server')"
    )


@pytest.mark.parametrize(
    ("literal", "shown"),
    [
        (None, "none"),
        (True, "true"),
        (0.5, "0.5"),
        ("é\n", '"é\\n"'),
        (DType.F16, "f16"),
        ((1, "a"), '[1, "a"]'),
        (np.array([1.5, 2.0], np.float32), "[1.5, 2.0]"),
        (np.bool_(True), "true"),
        (np.zeros((40, 3), np.float32), "<f32[3]>"),
        (b"\0", "<f32[3]>"),
        ("x" * 50, "<f32[3]>"),
    ],
    ids=repr,
)
def test_short_literals_are_shown_as_written_and_long_ones_by_their_type(
    literal: Literal, shown: str
) -> None:
    assert literal_text(literal, FACE) == shown


PLACE = Place("a.pipe", 7, 1, "x = f(y)")
PLAN = Plan(
    "0",
    (),
    (),
    (),
    (("graph", "lowered\n"), ("glue_into_models", "glued\n"), ("plan", "planned\n")),
    (Declined("p", "glue_into_models", "resize", "`resize` has no lowering", PLACE),),
    (),
)


def test_a_plan_explains_itself_at_every_stage() -> None:
    assert explain(PLAN) == "planned\n"
    assert explain(PLAN, "graph") == "lowered\n"


def test_an_unknown_stage_names_the_nearest() -> None:
    with pytest.raises(ExplainError, match="there are graph, glue_into_models, plan") as caught:
        explain(PLAN, "grpah")
    assert (caught.value.code, caught.value.help) == ("HR418", "did you mean `graph`?")


def test_what_a_pass_declined_is_shown_with_place_and_reason() -> None:
    assert why_not(PLAN, "glue_into_models") == "a.pipe:7: resize: `resize` has no lowering\n"
    assert why_not(PLAN, "plan") == "plan declined nothing\n"


@pytest.mark.parametrize("word", ["fuse", "glue", "models"])
def test_a_phase_or_a_word_stands_for_the_passes_it_names(word: str) -> None:
    plan = replace(PLAN, explanation=(*PLAN.explanation, ("merge_models", "merged\n")))
    glued = "glue_into_models\n  a.pipe:7: resize: `resize` has no lowering\n"
    both = "" if word == "glue" else "merge_models declined nothing\n"
    assert why_not(plan, word) == glued + both


def test_a_word_that_is_nearly_one_names_it() -> None:
    with pytest.raises(ExplainError, match="no pass `fues`") as caught:
        why_not(PLAN, "fues")
    assert caught.value.help == "did you mean `fuse`?"


def test_an_unknown_pass_names_the_nearest() -> None:
    with pytest.raises(ExplainError, match="no pass `glue_into_model`") as caught:
        why_not(PLAN, "glue_into_model")
    assert caught.value.help == "did you mean `glue_into_models`?"
