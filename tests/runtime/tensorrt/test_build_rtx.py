"""Engines that are built for real: by TensorRT for RTX, which needs no GPU for that.

pip install --no-deps tensorrt-rtx-cu13-libs==1.7.1.116 tensorrt-rtx-cu13-bindings==1.7.1.116
"""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import headrace
from headrace.cli import main
from headrace.compiler.plan import ModelSegment
from headrace.compiler.policies import EngineBuild
from headrace.runtime.load_error import LoadError
from headrace.runtime.tensorrt.ahead import build_ahead, engine_segments
from headrace.runtime.tensorrt.build import Request, build
from headrace.runtime.tensorrt.package import Package, open_package
from tests.runtime.tensorrt.engines import OCR, OCR_SCHEDULE, write
from tests.runtime.tensorrt.signatures import described_as, members

pytestmark = pytest.mark.skipif(
    find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT for RTX is not installed"
)


@pytest.fixture(scope="module")
def package() -> Package:
    return open_package("tensorrt_rtx")


def silent(_done: int, _total: int, _name: str) -> None:
    pass


def test_the_signatures_that_are_kept_are_those_that_it_has(package: Package) -> None:
    if package.version not in str(list((Path(__file__).parent / "signatures").iterdir())):
        pytest.skip(f"those of {package.version} are not kept")
    assert described_as(package.module) == members(f"rtx-{package.version}")


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("rapidocr_onnxruntime") is None, reason="its models are not installed"
)
def test_each_segment_of_the_fused_ocr_is_built_and_told_of(tmp_path: Path) -> None:
    for name in ("ocr.py", "ocr.pipe"):
        (tmp_path / name).write_text((OCR / name).read_text("utf-8"), "utf-8")
    source = tmp_path / "ocr.pipe"
    source.write_text(source.read_text("utf-8") + OCR_SCHEDULE, "utf-8")
    plan = headrace.compile(source, schedule="rtx").plan
    folder = tmp_path / "engines"
    detect, angle, read = build_ahead(plan, folder, silent)
    assert [one.report.stage for one in (detect, angle, read)] == ["detect", "angle", "read"]
    assert dict(detect.report.layers)["convolution"] >= 60
    assert detect.report.precision[0][0] == "float"
    assert detect.report.profile == ("x 1x736x736x3 to 1x2048x4096x3, mostly 1x736x1280x3",)
    assert read.report.profile[1] == "x_2 1x48x320x3 to 16x48x2304x3, mostly 8x48x640x3"
    assert all(one.fresh and len(one.engine) > 1 << 20 for one in (detect, angle, read))
    assert not any(one.fresh for one in build_ahead(plan, folder, silent))


def image_model(path: Path, op: str, dtype: int = TensorProto.FLOAT) -> None:
    """Write a convolution and what follows it."""
    made = np.random.default_rng(0).standard_normal((3, 3, 3, 3)).astype(np.float32)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    weight = numpy_helper.from_array(made.astype(kind), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node(op, ["c"], ["y"]),
    ]
    shape = (dtype, ["N", 3, "H", "W"])
    write(path, nodes, {"x": shape}, {"y": shape}, [weight])


CHAIN = """
model a = onnx "a.onnx" (x: {0}[3, H, W]) -> (y: {0}[3, H, W])
model b = onnx "b.onnx" (x: {0}[3, H, W]) -> (y: {0}[3, H, W])
model c = onnx "c.onnx" (x: {0}[3, H, W]) -> (y: {0}[3, H, W])

pipeline p(x: {0}[3, H, W]) -> (y: {0}[3, H, W]) {{ return y = c(b(a(x))) }}

schedule p {{
    a {{ {1} }}
    b {{ {1} }}
    c {{ {1} }}
}}
"""
SETTINGS = (
    "device = gpu(0), backend = tensorrt_rtx, batch { max = 8 }, "
    "engine { sizes { H = [32, 64, 96], W = [32, 64, 96] } }"
)


def chain(folder: Path, dtype: str) -> Path:
    number = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16}[dtype]
    for name, op in (("a", "Relu"), ("b", "Sigmoid"), ("c", "Tanh")):
        image_model(folder / f"{name}.onnx", op, number)
    path = folder / "p.pipe"
    path.write_text(CHAIN.format(dtype, SETTINGS))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "word"), [("f32", "float"), ("f16", "half")])
def test_a_chain_of_three_models_is_one_engine_of_the_precision_of_its_model(
    dtype: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = str(chain(tmp_path, dtype)), str(tmp_path / "engines")
    assert main(["compile", source, "--engines", folder]) == 0
    told = capsys.readouterr().out
    assert "a+b+c · TensorRT for RTX" in told
    assert "layers     activation 3, convolution 3" in told
    assert f"precision  {word} 6" in told
    assert "profile    x 1x3x32x32 to 8x3x96x96, mostly 8x3x64x64" in told
    assert main(["explain", source, "--engines", folder]) == 0
    assert f"precision  {word} 6" in capsys.readouterr().out


def request_of(folder: Path) -> tuple[Request, bytes]:
    plan = headrace.compile(chain(folder, "f32")).plan
    (segment,) = engine_segments(plan)
    assert isinstance(segment, ModelSegment)
    return Request.of(segment), plan.blob(segment.model)


def test_weights_may_be_streamed_and_what_it_has_not_is_refused_by_us(
    package: Package, tmp_path: Path
) -> None:
    request, content = request_of(tmp_path)
    streamed = replace(request, settings=EngineBuild(weight_budget=1 << 20))
    assert build(package, content, streamed, None).engine
    for settings in (EngineBuild(version_compatible=True), EngineBuild(dla=0)):
        with pytest.raises(LoadError, match=r"stage `a\+b\+c`.*does not take"):
            build(package, content, replace(request, settings=settings), None)


def test_what_the_builder_refuses_is_told_with_stage_and_place(
    package: Package, tmp_path: Path
) -> None:
    request, content = request_of(tmp_path)
    wrong = replace(
        request.ranges[0], least=(1, 4, 32, 32), usual=(1, 4, 64, 64), most=(1, 4, 96, 96)
    )
    with pytest.raises(
        LoadError, match=r"the input `x` has 3 in axis 1 of the file, and is to have 4"
    ):
        build(package, content, replace(request, ranges=(wrong,)), None)
    with pytest.raises(LoadError, match=r"stage `a\+b\+c`, p.pipe:2:7: .* does not take the model"):
        build(package, b"no model", request, None)
    node = helper.make_node("NonZero", ["x"], ["y"])
    inputs, outputs = (TensorProto.FLOAT, ["K"]), (TensorProto.INT64, [1, "F"])
    write(tmp_path / "n.onnx", [node], {"x": inputs}, {"y": outputs})
    ranges = (replace(request.ranges[0], input="x", least=(1,), usual=(4,), most=(8,)),)
    with pytest.raises(LoadError, match="NonZero"):
        build(package, (tmp_path / "n.onnx").read_bytes(), replace(request, ranges=ranges), None)


def test_a_shape_that_comes_as_a_value_is_refused_with_a_cure(
    package: Package, tmp_path: Path
) -> None:
    node = helper.make_node("Reshape", ["x", "to"], ["y"])
    inputs = {"x": (TensorProto.FLOAT, ["K"]), "to": (TensorProto.INT64, [2])}
    write(tmp_path / "r.onnx", [node], inputs, {"y": (TensorProto.FLOAT, ["A", "B"])})
    request, _ = request_of(tmp_path)
    x = replace(request.ranges[0], least=(1,), usual=(4,), most=(8,))
    x = replace(x, input="x")
    to = replace(x, input="to", name="to", least=(2,), usual=(2,), most=(2,))
    with pytest.raises(LoadError, match="the input `to` decides about sizes by its values"):
        build(package, (tmp_path / "r.onnx").read_bytes(), replace(request, ranges=(x, to)), None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "word"), [("fp16", "half"), ("bf16", "bf16"), ("int8", "int8")]
)
def test_an_engine_has_the_precision_that_the_schedule_asks_of_the_model(
    precision: str, word: str, tmp_path: Path
) -> None:
    source = chain(tmp_path, "f32")
    text = source.read_text().replace("backend", f"precision = {precision}, backend")
    source.write_text(text)
    rows = [{"x": np.random.default_rng(seed).random((3, 32, 32), np.float32)} for seed in (0, 1)]
    plan = headrace.compile(source, calibrate=rows).plan
    (entry,) = build_ahead(plan, tmp_path / "engines", silent)
    assert dict(entry.report.precision)[word] >= 3
