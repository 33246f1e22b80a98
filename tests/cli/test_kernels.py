"""`headrace kernels` lists the generated code of a plan."""

from pathlib import Path

import pytest

from headrace.cli import main
from tests.compiler.graphs import layer

PROGRAM = """\
use math
model a = onnx "a.onnx" (x: f32[4]) -> (y: f32[4])
model b = onnx "b.onnx" (x: f32[4]) -> (y: f32[4])

pipeline p(x: f32[4]) -> (y: f32[4]) {
    h = math.shift_right(cast(a(x), i32), 1)
    return y = b(cast(h, f32))
}
schedule p on "device" { device = sim }
schedule p on "host" { device = cpu }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, name in enumerate("ab"):
        (tmp_path / f"{name}.onnx").write_bytes(layer(seed).proto.SerializeToString())
    (tmp_path / "p.pipe").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)


def test_a_kernel_is_a_line_and_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "p.pipe", "--schedule", "device"]) == 0
    line = capsys.readouterr().out
    assert line == "kernel1 · cast + math.shift_right · sim · no code for GPUs\n"
    assert main(["kernels", "p.pipe", "--schedule", "device", "--text"]) == 0
    assert "ENTRY kernel_flat(const f32 *__restrict__ input0" in capsys.readouterr().out


def test_a_plan_without_kernels_says_when_there_are_some(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["kernels", "p.pipe", "--schedule", "host"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, "between stages of a device" in captured.err) == ("", True)


def test_what_is_built_needs_a_plan_and_a_compiler(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "p.pipe", "--for", "orin", "-o", "q.plan"]) == 2
    assert "argument --for: `orin` is no architecture, as sm_87 is" in capsys.readouterr().err
    known = ["kernels", "p.pipe", "--schedule", "device", "--for", "sm_1"]
    assert main(known) == 2
    assert "`-o` the plan that is to hold it" in capsys.readouterr().err
    assert main([*known, "-o", "built.plan"]) == 1
    assert "HR502" in capsys.readouterr().err
    assert not Path("built.plan").exists()
