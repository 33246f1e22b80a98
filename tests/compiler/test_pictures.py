"""Pictures: every step once, nested as written, and text that can do no harm."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headrace.compiler.graph import Check, Graph, Settings, StageSettings, Value
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.passes.place_transfers import PASS
from headrace.compiler.pictures.columns import columns
from headrace.compiler.pictures.graph_scene import graph_scene
from headrace.compiler.pictures.page import page
from headrace.compiler.pictures.plan_scene import plan_scene
from headrace.compiler.pictures.scene import Card, Frame, Item, Look, Scene
from headrace.compiler.pictures.svg import SVG, svg
from headrace.compiler.plan import Plan
from headrace.compiler.planner import plan_pipeline
from headrace.compiler.policies import Batching, Isolation, Priorities, Queueing, Service
from headrace.compiler.profile import Machine, ModelTimes, Profile, StageTime, Timing
from headrace.compiler.segments import Segments
from headrace.dsl.types import DimVar, DType, ListType, TensorType
from tests.compiler.make_graphs import GraphMaker

FACE = TensorType(DType.F32, (3,))
BOOL = TensorType(DType.BOOL)
HERE = Path()


@pytest.fixture
def graph(make: GraphMaker) -> Graph:
    """A model on another device, then a loop with a branch and a match."""
    photo = make.param("photo", TensorType(DType.BYTES))
    language = make.param("language", TensorType(DType.STRING))
    image = make.op("image.decode", photo, make.constant(3, TensorType(DType.I64)), type=FACE)
    check = Check(DimVar("H", 2), "==", 3, "H == 3")
    heat = make.model("detect", image, type=FACE, members=("normalize", "detect"), checks=[check])
    boxes = make.function("quads", heat, type=ListType(FACE, 1000))

    def body(box: Value) -> list[Value]:
        turned = make.model("angle", box, type=BOOL, batches=False)
        (upright,) = make.branch(
            turned, lambda: [make.op("image.rotate180", box, type=FACE)], lambda: [box], FACE
        )
        (line,) = make.match(
            language,
            [("en", "de"), ("zh",)],
            [lambda: [upright], lambda: [box], lambda: [make.constant(2.5, FACE)]],
            FACE,
        )
        text = make.model("read", line, type=FACE)
        return [text, make.op("core.any", text, type=BOOL)]

    (lines,) = make.each(boxes, FACE, body, ListType(FACE), filtered=True)
    settings = Settings(
        "server",
        (
            ("detect", StageSettings(device="sim")),
            ("read", StageSettings(batching=Batching(16, 0.002, (8, 16)))),
        ),
    )
    return make.graph(lines, settings=settings)


def planned(graph: Graph) -> Plan:
    segments = Segments()
    pipeline = plan_pipeline(PASS.run(graph, PassContext()).graph, segments, HERE).pipeline
    return Plan("0", (pipeline,), segments.all, (), (), (), segments.blobs)


def cards(items: "tuple[Item, ...]", path: tuple[str, ...] = ()) -> dict[Card, tuple[str, ...]]:
    """Return each card with the frames that it stands in."""
    found: dict[Card, tuple[str, ...]] = {}
    for item in items:
        if isinstance(item, Frame):
            found |= cards(item.items, (*path, item.title))
        else:
            found[item] = path
    return found


def titled(scene: Scene, title: str) -> tuple[Card, tuple[str, ...]]:
    ((card, path),) = [one for one in cards(scene.frames).items() if one[0].title == title]
    return card, path


def wires(scene: Scene) -> set[tuple[str, str]]:
    return {(wire.source.title, wire.target.title) for wire in scene.wires}


STEPS = Counter(
    {
        **dict.fromkeys(("photo", "language", "image.decode", "copy to sim", "detect"), 1),
        **dict.fromkeys(("copy to cpu", "quads", "angle", "image.rotate180", "read"), 1),
        **dict.fromkeys(("core.any", "each", "if", "match", "r0", "those kept"), 1),
        "either": 2,
        "nothing to do": 4,
    }
)


def test_every_step_of_a_plan_is_drawn_once(graph: Graph) -> None:
    scene = plan_scene("p", planned(graph), ["p"], None)
    found = Counter(card.title for card in cards(scene.frames))
    assert found == STEPS
    drawn = ElementTree.fromstring(svg(scene))
    nodes = drawn.findall(f".//{{{SVG}}}g[@class='node']")
    titles = [(node.findtext(f"{{{SVG}}}title") or "").partition("\n")[0] for node in nodes]
    assert Counter(titles) == STEPS
    assert len(drawn.findall(f".//{{{SVG}}}g[@class='edge']")) == len(scene.wires)
    frames = drawn.findall(f".//{{{SVG}}}g[@class='cluster']")
    assert len(frames) == 1 + 1 + 1 + 2 + 1 + 3  # pipeline, for, if and its arms, match and its


def test_a_graph_is_drawn_as_written_without_copies(graph: Graph) -> None:
    scene = graph_scene("a.pipe", [graph], HERE)
    found = Counter(card.title for card in cards(scene.frames))
    copies: Counter[str] = Counter(("copy to sim", "copy to cpu"))
    expected = STEPS - copies + Counter(["H == 3"])
    assert found == expected
    assert ("detect", "H == 3") in wires(scene)
    (wire,) = [one for one in scene.wires if one.source.title == "image.decode"]
    assert wire.texts == ("image.decode: f32[3]",)


def test_frames_nest_as_regions_do(graph: Graph) -> None:
    scene = plan_scene("p", planned(graph), ["p"], None)
    assert titled(scene, "quads")[1] == ("pipeline p",)
    assert titled(scene, "read")[1] == ("pipeline p", "for")
    assert titled(scene, "image.rotate180")[1] == ("pipeline p", "for", "if", "then")
    arms = [path[-1] for card, path in cards(scene.frames).items() if card.title == "nothing to do"]
    assert arms == ["else", 'case "en" | "de"', 'case "zh"', "else"]


def test_wires_follow_values_through_frames(graph: Graph) -> None:
    found = wires(plan_scene("p", planned(graph), ["p"], None))
    assert {
        ("photo", "image.decode"),
        ("image.decode", "copy to sim"),
        ("copy to sim", "detect"),
        ("detect", "copy to cpu"),
        ("copy to cpu", "quads"),
        ("quads", "each"),
        ("each", "angle"),
        ("angle", "if"),
        ("if", "image.rotate180"),  # which only decides that it runs
        ("each", "image.rotate180"),
        ("each", "nothing to do"),
        ("language", "match"),
        ("either", "read"),
        ("read", "those kept"),
        ("core.any", "those kept"),
        ("those kept", "r0"),
    } <= found
    assert ("detect", "quads") not in found


def test_cards_say_where_and_in_what_company_a_step_runs(graph: Graph) -> None:
    scene = plan_scene("p", planned(graph), ["p"], None)
    detect, read = titled(scene, "detect")[0], titled(scene, "read")[0]
    assert (detect.look, detect.device, detect.batches) == (Look.MODEL, "sim", False)
    assert detect.lines == ("onnx", "normalize + detect", "f32[3]")
    assert (read.device, read.batches) == ("cpu", True)
    assert "batch up to 16, wait 2 ms, prefer [8, 16]" in read.lines
    assert titled(scene, "image.decode")[0].lines == ("3", "f32[3]")
    assert scene.frames[0].lines == ("segments 4 · copies 1 in, 1 out",)


def test_cards_and_frames_say_how_they_are_served(graph: Graph) -> None:
    service = Service(Priorities(3, 2), 64 << 20, (1, 16), threads=2)
    isolated = Service(isolation=Isolation(2 << 30, 5.0))
    settings = Settings(
        "server",
        (
            ("read", StageSettings(instances=2, service=service)),
            ("quads", StageSettings(instances=2, service=isolated)),
        ),
        queueing=Queueing(4, 0.5),
        priority=Priorities(3, 2),
    )
    scene = plan_scene("p", planned(replace(graph, settings=settings)), ["p"], None)
    read, quads = titled(scene, "read")[0], titled(scene, "quads")[0]
    said = ("instances 2", "priorities 1 to 3, else 2", "cache 64 MiB", "warm-up 1, 16 rows")
    assert read.lines[2:] == (*said, "threads 2")
    assert quads.lines[2:] == ("instances 2", "own process, 2 GiB, 5 s a run")
    assert quads.look is Look.FUNCTION
    assert scene.frames[0].lines[0] == ("queue 4, reject after 500 ms · priorities 1 to 3, else 2")
    assert ElementTree.fromstring(svg(scene)) is not None


def test_cards_show_what_was_measured(graph: Graph) -> None:
    plan = planned(graph)
    digest = graph.model("read").content
    assert digest is not None
    times = ModelTimes(
        digest.digest, "read", "cpu", ("x f32[3]",), (Timing(1, 0.001), Timing(8, 0.005))
    )
    took = (StageTime("p", "quads", 1, 0.0002), StageTime("other", "quads", 1, 5.0))
    profile = Profile(Machine("a machine", 2, "onnxruntime 1", 1), (times,), took)
    scene = plan_scene("p", plan, ["p"], profile)
    assert titled(scene, "read")[0].lines[-2:] == ("1 ms a row", "batching measured 1.60x at 8")
    assert titled(scene, "quads")[0].lines[-1] == "took 200 us for 1 row"
    assert titled(scene, "angle")[0].lines == ("onnx", "bool")


def test_equal_plans_give_equal_bytes(graph: Graph) -> None:
    one, other = (svg(plan_scene("p", planned(graph), ["p"], None)) for _ in range(2))
    assert one == other
    assert page("p", one) == page("p", other)


HOSTILE = [
    '<script>alert(1)</script>"',
    "]]> &amp; &lt; \\N \\G \\l",
    "<B>bold</B>",
    "\x00\x1b[31m\ud800￿",
    "-->\n<!--",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_sources_is_never_markup(make: GraphMaker, text: str) -> None:
    x = make.param("x", TensorType(DType.STRING))
    (y,) = make.match(
        x, [(text,)], [lambda: [make.op(text, x, type=FACE)], lambda: [x]], TensorType(DType.STRING)
    )
    picture = svg(graph_scene(text, [make.graph(y, name=text)], HERE))
    root = ElementTree.fromstring(picture)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "g", "title", "polygon", "path", "text", "polyline", "ellipse"}
    shown = page(text, picture)
    assert shown.count("<script>") == 1
    assert shown.count("</script>") == 1
    seen = "".join(element.text or "" for element in root.iter(f"{{{SVG}}}text"))
    if text.startswith("<"):
        assert text in seen


def test_nothing_is_fetched_by_a_picture(graph: Graph) -> None:
    picture = svg(graph_scene("a.pipe", [graph], HERE))
    shown = page("a.pipe", picture)
    assert set(_addresses(shown)) == {SVG}
    assert "default-src 'none'" in shown
    assert not {"href", "src=", "url(", "@import"} & set(shown.split())
    assert picture.decode().partition("?>")[2].strip() in shown


def _addresses(text: str) -> list[str]:
    return [part.partition('"')[0] for part in text.split('"') if part.startswith("http")]


def test_sixty_stages_are_drawn_in_columns_at_their_own_size(make: GraphMaker) -> None:
    value = make.param("x", FACE)
    for number in range(60):
        value = make.model(f"stage{number}", value, type=FACE)
    root = ElementTree.fromstring(svg(plan_scene("p", planned(make.graph(value)), ["p"], None)))
    assert len(root.findall(f".//{{{SVG}}}g[@class='node']")) == 62
    sizes = {float(text.get("font-size", "0")) for text in root.iter(f"{{{SVG}}}text")}
    assert min(sizes) >= 9
    columns = {round(_middle(node)) for node in root.iter(f"{{{SVG}}}g") if _is_stage(node)}
    assert len(columns) == 3
    width, height = (float(root.get(side, "").removesuffix("pt")) for side in ("width", "height"))
    assert [float(one) for one in root.get("viewBox", "").split()] == [0, 0, width, height]


def _is_stage(node: ElementTree.Element) -> bool:
    return (node.findtext(f"{{{SVG}}}title") or "").startswith("stage")


def _middle(node: ElementTree.Element) -> float:
    """Return where the middle of a card's title is, from the left."""
    text = node.find(f"{{{SVG}}}text")
    path = node.find(f"{{{SVG}}}path")
    assert text is not None
    assert path is not None
    corners = [
        float(point.partition(",")[0]) for point in re.findall(r"[\d.]+,", path.get("d", ""))
    ]
    return (min(corners) + max(corners)) / 2


@pytest.mark.parametrize(("stages", "kept", "expected"), [(60, 1, 3), (24, 1, 1), (60, 3, 1)])
def test_a_pipeline_is_broken_where_it_is_long_and_little_flows(
    make: GraphMaker, stages: int, kept: int, expected: int
) -> None:
    x = make.param("x", FACE)
    values = [make.op(f"core.kept{number}", x, type=FACE) for number in range(kept)]
    for number in range(stages):
        values.append(make.op(f"core.f{number}", values[-1], type=FACE))
    graph = make.graph(*values[:kept], values[-1])
    scene = graph_scene("p", [graph], HERE)
    found = columns(scene.frames[0], scene.wires)
    assert sorted(set(found.values())) == list(range(expected))
