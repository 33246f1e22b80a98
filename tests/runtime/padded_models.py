"""Models whose rows differ in size: one that does not see padding, and one that does."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from headrace.compiler import compile_source
from headrace.compiler.plan import Plan
from headrace.dsl.read import read_source
from tests.runtime.plans import model

_INT, _FLOAT = int(TensorProto.INT64), int(TensorProto.FLOAT)

TABLE = np.arange(64, dtype=np.float32).reshape(16, 4)  # whole numbers: their sums are exact

SOURCE = """\
model mean = onnx "mean.onnx" (ids: i64[L], mask: i64[L]) -> (y: f32[4], z: f32[L])
    pads L with (ids = 0, mask = 0)
model share = onnx "share.onnx" (x: f32[L]) -> (y: f32[L])
    pads L with (x = 0)

pipeline embed(ids: i64[L], mask: i64[L]) -> (y: f32[4], z: f32[L]) {
    y, z = mean(ids, mask)
    return y = y, z = z
}

pipeline many(rows: list<i64[_], 64>) -> (y: list<f32[4], 64>) {
    found = for ids in rows {
        y, _ = mean(ids, ids * 0 + 1)
        yield y = y
    }
    return y = found.y
}

pipeline divide(x: f32[L]) -> (y: f32[L]) {
    return y = share(x)
}
"""


def mean_model() -> bytes:
    """`y` is the mean of the table's rows `ids` where `mask` is 1, `z` twice `ids`."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Cast", ["mask"], ["flags"], to=_FLOAT),
        helper.make_node("Unsqueeze", ["flags", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "second"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["column", "second"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["y"]),
        helper.make_node("Add", ["ids", "ids"], ["twice"]),
        helper.make_node("Cast", ["twice"], ["z"], to=_FLOAT),
    ]
    return model(
        nodes,
        [("ids", _INT, ["B", "L"]), ("mask", _INT, ["B", "L"])],
        [("y", _FLOAT, ["B", 4]), ("z", _FLOAT, ["B", "L"])],
        {"table": TABLE, "last": np.array([2]), "second": np.array([1])},
    )


def share_model() -> bytes:
    """A softmax over all of a row: what fills it up takes its share."""
    return model(
        [helper.make_node("Softmax", ["x"], ["y"], axis=1)],
        [("x", _FLOAT, ["B", "L"])],
        [("y", _FLOAT, ["B", "L"])],
        {},
    )


def write_models(folder: Path, schedule: str = "") -> Path:
    """Write the models and a source that uses them; return the source's path."""
    (folder / "mean.onnx").write_bytes(mean_model())
    (folder / "share.onnx").write_bytes(share_model())
    path = folder / "padded.pipe"
    path.write_text(f"{SOURCE}\n{schedule}\n", encoding="utf-8")
    return path


def padded_plan(folder: Path, schedule: str = "", *, optimise: bool = True) -> Plan:
    return compile_source(read_source(write_models(folder, schedule)), optimise=optimise)


PYTHON = """\
import numpy as np

TABLE = np.arange(64, dtype=np.float32).reshape(16, 4)

class Mean:
    def __call__(self, ids, mask):
        mean = (TABLE[ids] * mask[:, :, None]).sum(1) / mask.sum(1)[:, None].astype(np.float32)
        return mean.astype(np.float32), (ids * 2).astype(np.float32)

class Share:
    def __call__(self, x):
        powers = np.exp(x)
        return powers / powers.sum(1, keepdims=True)
"""


def python_source(folder: Path, schedule: str = "") -> Path:
    """Write the same source with the same models, as classes in Python."""
    (folder / "models.py").write_text(PYTHON, encoding="utf-8")
    text = SOURCE.replace('onnx "mean.onnx"', 'python "models.py:Mean"')
    text = text.replace('onnx "share.onnx"', 'python "models.py:Share"')
    path = folder / "padded.pipe"
    path.write_text(f"{text}\n{schedule}\n", encoding="utf-8")
    return path
