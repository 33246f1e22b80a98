"""What TensorRT makes of models in other precisions: it takes the same file, typed as it is.

pip install --no-deps tensorrt-rtx-cu13-libs==1.7.1.116 tensorrt-rtx-cu13-bindings==1.7.1.116
"""

from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

import headrace
from headrace.runtime.tensorrt.ahead import build_ahead
from tests.compiler.precision import models

pytest.importorskip("onnxruntime")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT for RTX is not installed"
    ),
]

SOURCE = """
model first = onnx "mlp.onnx" (x: f32[64]) -> (y: f32[64])
model second = onnx "mlp.onnx" (x: f32[64]) -> (y: f32[64])
model third = onnx "mlp.onnx" (x: f32[64]) -> (y: f32[64])
model block = onnx "block.onnx" (x: f32[L, 16]) -> (y: f32[L, 16])
model net = onnx "net.onnx" (x: f32[3, 16, 16]) -> (y: f32[4])

pipeline chain(x: f32[64]) -> (y: f32[64]) { return y = third(second(first(x))) }
pipeline blocks(x: f32[L, 16]) -> (y: f32[L, 16]) { return y = block(x) }
pipeline nets(x: f32[3, 16, 16]) -> (y: f32[4]) { return y = net(x) }

schedule chain {
    device = gpu(0)
    first { precision = int8, backend = tensorrt_rtx }
    second { precision = fp16, backend = tensorrt_rtx }
    third { precision = bf16, backend = tensorrt_rtx }
}
schedule blocks {
    block {
        precision = fp16, device = gpu(0), backend = tensorrt_rtx
        engine { sizes { L = [1, 8, 16] } }
    }
}
schedule nets { net { precision = int8, device = gpu(0), backend = tensorrt_rtx } }

test "a chain" for chain {
    given x = full(64, 0.5)
    expect len(y) == 64
}
test "a net" for nets {
    given x = full([3, 16, 16], 0.5)
    expect len(y) == 4
}
"""


def test_merged_models_of_three_precisions_are_one_engine(tmp_path: Path) -> None:
    for name, made in (
        ("mlp", models.perceptron()),
        ("block", models.transformer()),
        ("net", models.conv_net()),
    ):
        onnx.save(made, tmp_path / f"{name}.onnx")
    (tmp_path / "p.pipe").write_text(SOURCE, "utf-8")
    plan = headrace.compile(tmp_path / "p.pipe").plan
    chain, block, net = build_ahead(plan, tmp_path / "engines", lambda _done, _all, _name: None)
    assert chain.report.stage == "first+second+third"
    assert {"int8", "half", "bf16"} <= dict(chain.report.precision).keys()
    assert {"half", "float"} <= dict(block.report.precision).keys()
    assert "int8" in dict(net.report.precision)
