"""Sources whose schedules ask for another precision: what comes of their models, what is said."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import headrace
from headrace.calibrate import calibrating_of
from headrace.compiler import compile_with_warnings
from headrace.compiler.explain import explain
from headrace.compiler.plan import ModelSegment, Plan
from headrace.compiler.plan_file import to_bytes
from headrace.compiler.precision import calibration_file
from headrace.compiler.precision.report import Method, Precision
from headrace.dsl.diagnostic import CompileError, Refusal
from headrace.dsl.read import read_source
from tests.compiler.precision import models
from tests.compiler.precision.models import close, drawn, run

pytest.importorskip("onnxruntime")

NET = """
model net = onnx "net.onnx" (x: f32[3, 16, 16]) -> (y: f32[4])

pipeline p(x: f32[3, 16, 16]) -> (y: f32[4]) {{
    return y = net(x)
}}

schedule p {{
    net {{ {said} }}
}}
"""
TEST = """
test "numbers come out" for p {
    given x = full([3, 16, 16], 0.5)
    given x = full([3, 16, 16], -0.5)
    expect len(y) == 4
}
"""
ROWS = [{"x": drawn(3, 16, 16, seed=seed, scale=1.0)} for seed in range(6)]


def write(folder: Path, text: str, **made: onnx.ModelProto) -> Path:
    for name, model in made.items():
        onnx.save(model, folder / f"{name}.onnx")
    path = folder / "p.pipe"
    path.write_text(text, encoding="utf-8")
    return path


def net(folder: Path, said: str = "precision = int8", more: str = "") -> Path:
    return write(folder, NET.format(said=said) + more, net=models.conv_net())


def model_of(plan: Plan, number: int = 0) -> bytes:
    found = [one for one in plan.segments if isinstance(one, ModelSegment)]
    return plan.blob(found[number].model)


def ops(content: bytes) -> set[str]:
    return {node.op_type for node in onnx.load_from_string(content).graph.node}


def mistake(path: Path, **options: object) -> tuple[str, str]:
    with pytest.raises((CompileError, Refusal)) as raised:
        headrace.compile(path, **options)  # pyright: ignore[reportArgumentType] - by name
    error = raised.value
    if isinstance(error, CompileError):
        (found,) = error.diagnostics
        return found.code, found.message
    assert isinstance(error, Refusal)
    return error.code, error.message


def test_a_net_in_int8_is_a_quarter_as_large_and_close(tmp_path: Path) -> None:
    path = net(tmp_path)
    made = headrace.compile(path, calibrate=ROWS)
    (told,) = made.rewritten
    assert (told.precision, told.method, told.rows) == (Precision.INT8, Method.STATIC, 6)
    assert told.figures is not None
    assert 0 < told.figures.largest < 0.1 * told.figures.peak
    assert told.figures.cosine > 0.999
    assert "QuantizeLinear" in ops(model_of(made.plan))
    weights = onnx.load_from_string(model_of(made.plan)).graph.initializer
    scales = [one for one in weights if "w1" in one.name and one.name.endswith("scale")]
    assert [list(one.dims) for one in scales] == [[16]]  # one for each channel
    plain = run(models.conv_net(), *(row["x"][None] for row in ROWS))
    with headrace.load(made) as app:
        for row, (wanted,) in zip(ROWS, plain, strict=True):
            close(app.p(**row).y, wanted, atol=told.figures.largest + 1e-6)
    (line,) = [one for one in explain(made.plan).splitlines() if "int8" in one]
    assert line.startswith("--   net in int8: ranges by calibration; off by at most ")
    assert "on 6 rows; 39.4 KiB to " in line


def test_batches_are_as_free_as_before(tmp_path: Path) -> None:
    path = net(tmp_path, "precision = int8, batch { max = 4 }")
    made = headrace.compile(path, calibrate=ROWS)
    rows = np.stack([row["x"] for row in ROWS])
    alone = [run(model_of(made.plan), row[None])[0] for row in rows]
    close(run(model_of(made.plan), rows)[0], np.concatenate(alone), atol=1e-5)


def test_tests_calibrate_where_nothing_else_is_given(tmp_path: Path) -> None:
    (told,) = headrace.compile(net(tmp_path, more=TEST)).rewritten
    assert (told.method, told.rows) == (Method.STATIC, 1)  # the last that is given of a name


def test_a_test_that_stubs_a_stage_says_nothing_of_what_comes(tmp_path: Path) -> None:
    stubbed = TEST.replace("    given", "    stub net = (y = [1.0, 2.0, 3.0, 4.0])\n    given", 1)
    code, message = mistake(net(tmp_path, more=stubbed))
    assert code == "HR431"
    assert "`net` needs samples" in message


def test_products_need_no_samples_and_convolutions_do(tmp_path: Path) -> None:
    text = NET.replace("3, 16, 16", "64").replace("f32[4]", "f32[64]")
    path = write(tmp_path, text.format(said="precision = int8"), net=models.perceptron())
    made = headrace.compile(path)
    (told,) = made.rewritten
    assert (told.method, told.figures) == (Method.DYNAMIC, None)
    assert "MatMulInteger" in ops(model_of(made.plan))
    assert "not compared" in explain(made.plan)
    rows = [{"x": drawn(64, seed=seed, scale=10.0**seed)} for seed in range(3)]
    (closer,) = headrace.compile(path, calibrate=rows).rewritten
    assert closer.method is Method.DYNAMIC  # the rows are of very different size
    assert closer.figures is not None
    code, _ = mistake(path, tolerance=0.5)
    assert code == "HR431"  # with nothing to compare


def test_a_gpu_has_symmetric_ranges(tmp_path: Path) -> None:
    made = headrace.compile(net(tmp_path, "precision = int8, device = gpu(0)"), calibrate=ROWS)
    (told,) = made.rewritten
    assert told.method is Method.SYMMETRIC
    weights = onnx.load_from_string(model_of(made.plan)).graph.initializer
    points = [one for one in weights if "zero_point" in one.name]
    assert points
    assert not any(onnx.numpy_helper.to_array(one).any() for one in points)


@pytest.mark.parametrize("said", ["fp16", "bf16"])
def test_halves_need_no_samples_and_are_compared_where_there_are_some(
    said: str, tmp_path: Path
) -> None:
    path = net(tmp_path, f"precision = {said}")
    (told,) = headrace.compile(path).rewritten
    assert told.figures is None
    made = headrace.compile(path, calibrate=ROWS)
    (told,) = made.rewritten
    assert told.figures is not None
    assert told.figures.cosine > 0.9999
    with headrace.load(made) as app:
        wanted = run(models.conv_net(), ROWS[0]["x"][None])[0][0]
        close(app.p(**ROWS[0]).y, wanted, atol=2e-2)


@pytest.mark.parametrize("said", ["int8", "fp16", "bf16"])
def test_openvino_runs_what_is_rewritten(said: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = net(tmp_path, f"precision = {said}, backend = openvino")
    made = headrace.compile(path, calibrate=ROWS)
    plain = run(models.conv_net(), ROWS[0]["x"][None])[0][0]
    with headrace.load(made) as app:
        close(app.p(**ROWS[0]).y, plain, atol=0.1)


def test_what_overflows_is_found_on_the_samples_and_named(tmp_path: Path) -> None:
    text = NET.replace("3, 16, 16", "8").replace("f32[4]", "f32[8]")
    path = write(tmp_path, text.format(said="precision = fp16"), net=models.overflowing())
    made = headrace.compile(path, calibrate=[{"x": np.full(8, 4, np.float32)}])
    assert "in f32 Mul `big`, Mul `little` (`big` goes to 2e+05, and fp16 to 65504)" in explain(
        made.plan
    )


def test_models_of_different_precision_are_merged(tmp_path: Path) -> None:
    text = """
model first = onnx "first.onnx" (x: f32[64]) -> (y: f32[64])
model second = onnx "second.onnx" (x: f32[64]) -> (y: f32[64])
model third = onnx "third.onnx" (x: f32[64]) -> (y: f32[64])

pipeline p(x: f32[64]) -> (y: f32[64]) {
    return y = third(second(first(x / 2.0))) + 1.0
}

schedule p {
    first { precision = int8 }
    second { precision = fp16 }
}
"""
    made = {name: models.perceptron() for name in ("first", "second", "third")}
    path = write(tmp_path, text, **made)
    rows = [{"x": drawn(64, seed=seed, scale=1.0)} for seed in range(4)]
    done = headrace.compile(path, calibrate=rows)
    (segment,) = done.plan.segments
    assert isinstance(segment, ModelSegment)
    assert segment.members == ("math.div", "first", "second", "third", "math.add")
    assert {"DynamicQuantizeLinear", "Cast"} <= ops(model_of(done.plan))
    said = [line[:20] for line in explain(done.plan).splitlines() if " in " in line[:20]]
    assert said == ["--   first in int8: ", "--   second in fp16:"]
    unfused = compile_with_warnings(
        read_source(path), optimise=False, calibrating=calibrating_of(read_source(path), rows)
    )
    with headrace.load(done) as app, headrace.load(unfused.plan) as apart:
        close(app.p(**rows[0]).y, apart.p(**rows[0]).y, atol=1e-5)


def test_one_file_in_two_pipelines_is_rewritten_once_for_each_precision(tmp_path: Path) -> None:
    second = """
pipeline q(x: f32[3, 16, 16]) -> (y: f32[4]) {
    return y = net(x)
}

pipeline r(x: f32[3, 16, 16]) -> (y: f32[4]) {
    return y = net(x)
}

schedule q { net { precision = int8 } }
"""
    made = headrace.compile(net(tmp_path, more=second), calibrate=ROWS)
    assert [one.precision for one in made.rewritten] == [Precision.INT8]
    used = [one.model for one in made.plan.segments if isinstance(one, ModelSegment)]
    assert len(used) == 2  # p and q share one
    assert model_of(made.plan, 1) == models.conv_net().SerializeToString()


def test_weights_in_another_file_and_weights_that_are_inputs(tmp_path: Path) -> None:
    plain = models.conv_net()
    path = net(tmp_path)
    onnx.save(plain, tmp_path / "net.onnx", save_as_external_data=True, size_threshold=0)
    (told,) = headrace.compile(path, calibrate=ROWS).rewritten
    assert told.after < told.before / 2
    text = NET.replace("3, 16, 16", "64").replace("f32[4]", "f32[64]")
    for said in ("int8", "fp16", "bf16"):
        path = write(tmp_path, text.format(said=f"precision = {said}"), net=models.defaults())
        made = headrace.compile(path, calibrate=[{"x": drawn(64)}])
        inputs = onnx.load_from_string(model_of(made.plan)).graph.input
        assert [one.name for one in inputs] == ["x"]
        assert made.rewritten[0].after < made.rewritten[0].before * 0.6


def test_an_old_opset_is_raised(tmp_path: Path) -> None:
    path = write(tmp_path, NET.format(said="precision = int8"), net=models.conv_net(opset=11))
    made = headrace.compile(path, calibrate=ROWS)
    assert onnx.load_from_string(model_of(made.plan)).opset_import[0].version == 13


def test_a_calibration_is_kept_and_gives_the_same_plan_without_running_anything(
    tmp_path: Path,
) -> None:
    source = read_source(net(tmp_path))
    first = compile_with_warnings(source, calibrating=calibrating_of(source, ROWS))
    path = tmp_path / "p.calibration"
    calibration_file.write(first.calibration, path)
    assert calibration_file.read(path) == first.calibration
    found = calibrating_of(source, path)
    assert found.record is None
    again = compile_with_warnings(source, calibrating=found)
    assert to_bytes(again.plan) == to_bytes(first.plan)
    assert again.rewritten == first.rewritten


BRANCHES = """
model branch = onnx "branch.onnx" (x: f32[8]) -> (y: f32[8])
model turns = onnx "turns.onnx" (x: f32[8]) -> (y: f32[8])

pipeline q(x: f32[8]) -> (y: f32[8], z: f32[8]) {
    return y = branch(x), z = turns(x)
}

schedule q {
    branch { precision = fp16 }
    turns { precision = bf16 }
}
"""


@pytest.mark.slow
def test_the_same_samples_give_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    path = net(tmp_path, more=TEST + BRANCHES)
    onnx.save(models.branching(), tmp_path / "branch.onnx")
    onnx.save(models.looping(), tmp_path / "turns.onnx")
    program = (
        "import hashlib, sys, headrace; from headrace.compiler.plan_file import to_bytes; "
        "made = headrace.compile(sys.argv[1]); assert len(made.rewritten) == 3; "
        "print(hashlib.sha256(to_bytes(made.plan)).hexdigest())"
    )
    words = [sys.executable, "-c", program, str(path)]
    found = {
        subprocess.run(
            words, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_mistakes_name_the_stage_and_the_reason(tmp_path: Path) -> None:
    code, message = mistake(net(tmp_path))
    assert (code, "`net` needs samples to be int8" in message) == ("HR431", True)
    made = headrace.compile(net(tmp_path), calibrate=ROWS)
    onnx.save(onnx.load_from_string(model_of(made.plan)), tmp_path / "net.onnx")
    for said in ("int8", "fp16", "bf16"):
        (tmp_path / "p.pipe").write_text(NET.format(said=f"precision = {said}"))
        code, message = mistake(tmp_path / "p.pipe", calibrate=ROWS)
        assert code == "HR430"
        assert "it is quantised already: it has a " in message


def test_a_bias_of_two_axes_stays_in_f32(tmp_path: Path) -> None:
    """onnxruntime.quantization cannot tell its scale, and some exporters write it so."""
    made = models.conv_net()
    (bias,) = [one for one in made.graph.initializer if one.name == "b3"]
    bias.dims[:] = [1, 4]
    path = write(tmp_path, NET.format(said="precision = int8"), net=made)
    done = headrace.compile(path, calibrate=ROWS)
    assert done.rewritten[0].figures is not None
    assert done.rewritten[0].figures.cosine > 0.999
    weights = onnx.load_from_string(model_of(done.plan)).graph.initializer
    assert [list(one.dims) for one in weights if one.name == "b3"] == [[1, 4]]


def test_samples_that_make_infinity_are_refused(tmp_path: Path) -> None:
    row = {"x": np.full((3, 16, 16), np.inf, np.float32)}
    code, message = mistake(net(tmp_path), calibrate=[row])
    assert (code, "`x` is not finite on the samples" in message) == ("HR430", True)


def test_a_model_in_branches_has_nothing_to_quantise(tmp_path: Path) -> None:
    whole = models.model(
        """all (float[N, 8] x) => (float[N, 8] y) {
            m = ReduceMax <keepdims = 0> (x)
            c = Greater (m, zero)
            y = If (c) <
                then_branch = g () => (float[N, 8] a) { a = Add (x, x) },
                else_branch = h () => (float[N, 8] b) { b = Mul (x, x) }
            >
        }""",
        {"zero": np.zeros((), np.float32)},
    )
    text = NET.replace("3, 16, 16", "8").replace("f32[4]", "f32[8]")
    path = write(tmp_path, text.format(said="precision = int8"), net=whole)
    for samples in ([{"x": drawn(8)}], None):  # which nobody is to look for in vain
        code, message = mistake(path, calibrate=samples)
        assert (code, "nothing in it can be quantised" in message) == ("HR430", True)


def test_too_far_off_is_a_mistake(tmp_path: Path) -> None:
    path = net(tmp_path)
    headrace.compile(path, calibrate=ROWS, tolerance=0.5)
    code, message = mistake(path, calibrate=ROWS, tolerance=1e-5)
    assert code == "HR433"
    assert "of its largest result, and 0.00% is allowed" in message


def test_a_calibration_of_another_model_is_not_taken(tmp_path: Path) -> None:
    source = read_source(net(tmp_path))
    made = compile_with_warnings(source, calibrating=calibrating_of(source, ROWS))
    path = tmp_path / "p.calibration"
    calibration_file.write(made.calibration, path)
    onnx.save(models.conv_net(opset=18), tmp_path / "net.onnx")
    code, message = mistake(tmp_path / "p.pipe", calibrate=path)
    assert (code, message) == ("HR431", "the calibration has nothing of `net` as it is now")
    path.write_text('{"format": "headrace calibration 1", "calibration": {"models": [3]}}')
    assert mistake(tmp_path / "p.pipe", calibrate=path)[0] == "HR434"
