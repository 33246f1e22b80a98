"""What TensorRT is told of a stage: sizes of dimensions and batches, held to the model with a place
and a cure before there is any builder; and what it is not given at all."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from headrace.compiler import compile_source
from headrace.compiler.engine_bytes import floats_for_bytes
from headrace.compiler.engine_sizes import interval
from headrace.compiler.explain import why_not
from headrace.compiler.plan import ModelSegment, Plan
from headrace.compiler.plan_file import read, to_bytes
from headrace.compiler.policies import EngineBuild, SizeRange
from headrace.dsl.diagnostic import CompileError
from headrace.dsl.source import Source
from headrace.dsl.types import Dim, DimArith, DimVar
from headrace.runtime.load import Stages
from headrace.runtime.load_error import LoadError

FLOAT, TEXT, BYTES = TensorProto.FLOAT, TensorProto.STRING, TensorProto.UINT8


def write(
    path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any]
) -> onnx.ModelProto:
    def values(named: dict[str, Any]) -> list[Any]:
        return [helper.make_tensor_value_info(n, t, dims) for n, (t, dims) in named.items()]

    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    image = (FLOAT, ["N", 3, "H", "W"])
    for name, op in (("a", "Relu"), ("b", "Sigmoid"), ("c", "Neg")):
        write(
            tmp_path / f"{name}.onnx",
            [helper.make_node(op, ["x"], ["y"])],
            {"x": image},
            {"y": image},
        )
    fixed = (FLOAT, ["N", 3, 48, 192])
    node = helper.make_node("Relu", ["x"], ["y"])
    write(tmp_path / "fixed.onnx", [node], {"x": fixed}, {"y": fixed})
    text = (TEXT, ["N", "K"])
    node = helper.make_node("Identity", ["x"], ["y"])
    write(tmp_path / "text.onnx", [node], {"x": text}, {"y": text})
    node = helper.make_node("NonZero", ["x"], ["y"])
    write(
        tmp_path / "some.onnx", [node], {"x": (FLOAT, ["K"])}, {"y": (TensorProto.INT64, [1, "F"])}
    )
    return tmp_path


IMAGE = "(x: f32[3, H, W]) -> (y: f32[3, H, W])"
ON = "device = gpu(0), backend = tensorrt"
MODELS = f"""
model a = onnx "a.onnx" {IMAGE} where H % 32 == 0
model b = onnx "b.onnx" {IMAGE}
model c = onnx "c.onnx" {IMAGE}
model fixed = onnx "fixed.onnx" (x: f32[3, 48, 192]) -> (y: f32[3, 48, 192])
model text = onnx "text.onnx" (x: string[K]) -> (y: string[K])
model some = onnx "some.onnx" (x: f32[K]) -> (y: i64[1, F]) batch none
"""


def compiled(folder: Path, signature: str, body: str, schedule: str) -> Plan:
    text = f"{MODELS}pipeline p{signature} {{ return y = {body} }}\nschedule p {{\n{schedule}\n}}\n"
    return compile_source(Source("p.pipe", text, folder / "p.pipe"))


def model_of(plan: Plan) -> ModelSegment:
    (segment,) = [one for one in plan.segments if isinstance(one, ModelSegment)]
    return segment


def test_sizes_go_by_the_models_names_and_batches_by_the_schedule(folder: Path) -> None:
    engine = "engine { sizes { H = [32, 64, 128], W = 96 }, workspace = 1GiB, level = 3 }"
    schedule = f"a {{ {ON}, batch {{ max = 16, prefer = [4, 8] }}, {engine} }}"
    plan = compiled(folder, "(x: f32[3, tall, wide]) -> (y: f32[3, tall, wide])", "a(x)", schedule)
    segment = model_of(plan)
    (found,) = segment.ranges
    assert (found.least, found.usual, found.most) == (
        (1, 3, 32, 96),
        (8, 3, 64, 96),
        (16, 3, 128, 96),
    )
    assert segment.service.engine == EngineBuild(workspace=1 << 30, level=3)
    text = dict(plan.explanation)["plan"]
    assert "onnx on tensorrt · a" in text
    assert "engine workspace 1 GiB, level 3" in text
    assert "engine for x 1x3x32x96 to 16x3x128x96, mostly 8x3x64x96" in text
    assert read(to_bytes(plan)) == plan


def test_a_chain_of_models_is_one_engine_for_sizes_that_are_said_of_each(folder: Path) -> None:
    one = f"{{ {ON}, engine {{ sizes {{ H = [32, 64, 96], W = [8, 8, 8] }} }} }}"
    schedule = "\n".join(f"{name} {one}" for name in "abc")
    plan = compiled(folder, IMAGE, "c(b(a(x)))", schedule)
    segment = model_of(plan)
    assert segment.members == ("a", "b", "c")
    assert segment.ranges[0].most == (1, 3, 96, 8)


def test_what_a_model_fixes_need_not_be_said(folder: Path) -> None:
    plan = compiled(
        folder, "(x: f32[3, 48, 192]) -> (y: f32[3, 48, 192])", "fixed(x)", f"fixed {{ {ON} }}"
    )
    assert model_of(plan).ranges[0].usual == (1, 3, 48, 192)


def test_a_dla_is_a_core_beside_the_first_gpu(folder: Path) -> None:
    schedule = "fixed { device = dla(1), backend = tensorrt }"
    plan = compiled(folder, "(x: f32[3, 48, 192]) -> (y: f32[3, 48, 192])", "fixed(x)", schedule)
    segment = model_of(plan)
    assert (segment.device, segment.service.engine) == ("gpu:0", EngineBuild(dla=1))
    assert "engine for DLA core 1" in dict(plan.explanation)["plan"]


MISTAKES: list[tuple[str, str, str, str | None]] = [
    (
        "a { %s }",
        "HR425",
        "axis 1 of `x` is `H`, axis 2 of `x` is `W`",
        "H = [32, 320, 1280], W = [",
    ),
    ("a { %s, engine { sizes { H = [32, 64, 96] } } }", "HR425", "axis 2 of `x` is `W`", None),
    ("a { %s, engine { sizes { H = [64, 32, 96], W = 8 } } }", "HR406", "the most", "[32, 64, 96]"),
    ("a { %s, engine { sizes { H = [32, 64], W = 8 } } }", "HR405", "three sizes", None),
    (
        "a { %s, engine { sizes { H = [32, 50, 96], W = 8 } } }",
        "HR406",
        "does not hold for the usual: `H` 50",
        None,
    ),
    ("a { %s, engine { sizes { H = 32, Q = 8 } } }", "HR402", "no key `Q`", None),
    ("a { %s, engine { sizes { H = 32, W = 8 }, level = 9 } }", "HR406", "5 at most", None),
    ("a { %s, engine { shapes = 3 } }", "HR402", "no key `shapes`", None),
    ("a { %s, sizes { H = 32 } }", "HR403", "belongs in `engine { }`", None),
    (
        "a { device = gpu(0), engine { refit = on } }",
        "HR403",
        "TensorRT does not run it",
        "backend = tensorrt",
    ),
    ("a { device = dla(0) }", "HR403", "no effect without TensorRT", "backend = tensorrt"),
    ("a { device = dla(0), backend = tensorrt_rtx }", "HR403", "no effect without TensorRT", None),
]


@pytest.mark.parametrize(("schedule", "code", "said", "help"), MISTAKES)
def test_wrong_sizes_are_refused_when_compiling_with_place_and_cure(
    schedule: str, code: str, said: str, help: str | None, folder: Path
) -> None:
    schedule = schedule.replace("%s", ON)
    with pytest.raises(CompileError) as caught:
        compiled(folder, IMAGE, "a(x)", schedule)
    found = caught.value.diagnostics[0]
    assert (found.code, said in found.message) == (code, True), found.message
    assert found.primary.span.line > 8
    assert help is None or (found.help is not None and help in found.help)


def test_two_stages_may_not_say_two_things_of_one_size(folder: Path) -> None:
    sizes = "engine { sizes { H = [32, 32, %d], W = 8 } }"
    schedule = f"a {{ {ON}, {sizes % 64} }}\nb {{ {ON}, {sizes % 96} }}"
    with pytest.raises(CompileError) as caught:
        compiled(folder, IMAGE, "b(a(x))", schedule)
    (found,) = caught.value.diagnostics
    assert "`H` of `b` is `H` of `a`, which is said to be [32, 32, 64]" in found.message


@pytest.mark.parametrize(
    ("model", "signature", "backend", "reason"),
    [
        ("text", "(x: string[K]) -> (y: string[K])", "tensorrt", "has no string, which `x` is"),
        ("some", "(x: f32[K]) -> (y: i64[1, _])", "tensorrt_rtx", "does not take NonZero"),
    ],
)
def test_what_tensorrt_does_not_take_stays_on_onnx_runtime_and_explain_says_why(
    model: str, signature: str, backend: str, reason: str, folder: Path
) -> None:
    schedule = f"{model} {{ device = gpu(0), backend = {backend} }}"
    plan = compiled(folder, signature, f"{model}(x)", schedule)
    segment = model_of(plan)
    assert (segment.backend, segment.ranges) == ("onnx", ())
    assert reason in dict(plan.explanation)["plan"]
    assert f"`{model}` stays on ONNX Runtime" in why_not(plan, "choose_backends")


@pytest.mark.parametrize("backend", ["onnx_tensorrt", "onnx_tensorrt_rtx"])
def test_onnx_runtimes_own_provider_is_told_of_no_sizes(backend: str, folder: Path) -> None:
    plan = compiled(folder, IMAGE, "a(x)", f"a {{ device = gpu(0), backend = {backend} }}")
    segment = model_of(plan)
    assert (segment.backend, segment.home, segment.ranges) == (backend, "gpu:0", ())
    with pytest.raises(LoadError) as caught:
        Stages(plan)
    assert caught.value.code in ("HR501", "HR502")


def test_what_only_full_tensorrt_takes_is_given_to_it(folder: Path) -> None:
    schedule = f"some {{ {ON}, engine {{ sizes {{ K = [1, 8, 64] }} }} }}"
    assert (
        model_of(compiled(folder, "(x: f32[K]) -> (y: i64[1, _])", "some(x)", schedule)).backend
        == "tensorrt"
    )


H, W = DimVar("H"), DimVar("W", 1)
SIZES: dict[Dim, SizeRange] = {H: SizeRange(32, 64, 96), W: SizeRange(1, 5, 9)}


@pytest.mark.parametrize(
    ("dim", "found"),
    [
        (7, (7, 7, 7)),
        (DimArith("*", 2, H), (64, 128, 192)),
        (DimArith("-", H, W), (23, 59, 95)),
        (DimArith("/", H, 4), (8, 16, 24)),
        (DimArith("%", H, 5), (0, 4, 4)),
    ],
)
def test_sizes_that_are_computed_lie_between_what_they_are_computed_of(
    dim: Dim, found: tuple[int, int, int]
) -> None:
    least, usual, most = found
    assert interval(dim, SIZES) == SizeRange(least, usual, most)
    tried = [_at(dim, h, w) for h in (32, 33, 64, 95, 96) for w in (1, 2, 9)]
    assert all(least <= one <= most for one in tried)


def _at(dim: Dim, h: int, w: int) -> int:
    exact: dict[Dim, SizeRange] = {H: SizeRange(h, h, h), W: SizeRange(w, w, w)}
    size = interval(dim, exact)
    assert size is not None
    return size.usual


# ---- bytes


def ran(model: onnx.ModelProto, x: np.ndarray[Any, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, {"x": x}))


def test_bytes_that_are_moved_become_floats_where_they_come_in(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Concat", ["t", "t"], ["both"], axis=1),
        helper.make_node("Cast", ["both"], ["f"], to=FLOAT),
        helper.make_node("Sqrt", ["f"], ["y"]),
        helper.make_node("Identity", ["t"], ["back"]),
    ]
    inputs, back = {"x": (BYTES, ["N", "H", "W", 3])}, (BYTES, ["N", 3, "H", "W"])
    model = write(
        tmp_path / "m.onnx", nodes, inputs, {"y": (FLOAT, ["N", 6, "H", "W"]), "back": back}
    )
    new = floats_for_bytes(model)
    assert isinstance(new, onnx.ModelProto)
    onnx.checker.check_model(new, full_check=True)
    readers = [node.op_type for node in new.graph.node if "x" in node.input]
    assert readers == ["Cast"]
    x = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 3), np.uint8)
    for one, other in zip(ran(model, x), ran(new, x), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert floats_for_bytes(new) is new


def test_a_model_that_computes_with_bytes_is_left_as_it_is(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    shape = (BYTES, ["N"])
    model = write(tmp_path / "m.onnx", [node], {"x": shape}, {"y": shape})
    assert floats_for_bytes(model) == "its Add computes with bytes"


def test_a_model_that_makes_bytes_inside_is_left_as_it_is(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["b"], to=BYTES),
        helper.make_node("Cast", ["b"], ["y"], to=FLOAT),
    ]
    shape = (FLOAT, ["N"])
    model = write(tmp_path / "m.onnx", nodes, {"x": shape}, {"y": shape})
    assert floats_for_bytes(model) == "it makes bytes inside"
