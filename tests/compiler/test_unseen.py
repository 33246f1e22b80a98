"""What a plan says of the source's values: how they are called, and which are not made."""

from pathlib import Path

from headrace.compiler import compile_source
from headrace.compiler.plan import EachStep, PipelinePlan
from headrace.dsl.source import Source
from tests.compiler.onnx_files import write_model

TEXT = """\
model double = onnx "double.onnx" (x: f32[4]) -> (y: f32[4])
model triple = onnx "triple.onnx" (x: f32[4]) -> (y: f32[4])

pipeline chain(x: f32[4]) -> (y: f32[4]) {
    scaled = x / 255
    twice = double(scaled)
    same = double(scaled)
    thrice = triple(twice) + triple(same)
    return y = thrice
}

pipeline each(xs: f32[N, 4]) -> (ys: f32[N, 4]) {
    made = for x in xs { yield y = triple(x) }
    return ys = made
}
"""


def pipeline_of(folder: Path, name: str, *, optimise: bool = True) -> PipelinePlan:
    for model in ("double", "triple"):
        write_model(folder / f"{model}.onnx", {"x": ["n", 4]}, {"y": ["n", 4]})
    (folder / "a.pipe").write_text(TEXT)
    plan = compile_source(Source("a.pipe", TEXT, folder / "a.pipe"), optimise=optimise)
    return plan.pipeline(name)


def test_slots_are_called_as_in_the_source(tmp_path: Path) -> None:
    body = pipeline_of(tmp_path, "each").body
    assert {"xs", "made"} <= set(body.names)
    each = next(step for step in body.steps if isinstance(step, EachStep))
    assert [each.body.names[slot] for slot in each.body.params] == ["x"]


def test_what_a_model_has_taken_in_is_said_to_be_inside_of_it(tmp_path: Path) -> None:
    unseen = {one.name: one for one in pipeline_of(tmp_path, "chain").unseen}
    assert unseen["scaled"].inside
    assert unseen["scaled"].place.line == 5
    assert unseen["twice"].inside


def test_what_need_not_be_made_is_said_to_be_gone(tmp_path: Path) -> None:
    unseen = {one.name: one for one in pipeline_of(tmp_path, "chain").unseen}
    assert unseen["same"].by == "merge_common_subexpressions"
    assert unseen["same"].inside == ""


def test_without_fusing_all_is_there_to_be_seen(tmp_path: Path) -> None:
    plain = pipeline_of(tmp_path, "chain", optimise=False)
    assert plain.unseen == ()
    assert {"scaled", "twice", "same", "thrice"} <= set(plain.body.names)
