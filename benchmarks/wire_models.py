"""The models that the wire benchmarks serve everywhere: as ONNX files, and as what to send them.

`write_models` makes a folder that `headrace run` serves; the bare servers and the peers read the
ONNX files from it. `words` is no ONNX file: it makes strings capital.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

Array: TypeAlias = "NDArray[Any]"  # Any: of numbers, or of bytes
Arrays: TypeAlias = Mapping[str, Array]

WIDTH = 16
SIDE = 224
WORDS = 64
BIG = 16_000_000
EMITTED = 100

PIPES = f"""
use text

model tiny_model = onnx "tiny.onnx" (a: f32[{WIDTH}], b: f32[{WIDTH}])
    -> (sum: f32[{WIDTH}], difference: f32[{WIDTH}])
model image_model = onnx "image.onnx" (x: u8[{SIDE}, {SIDE}, 3]) -> (mean: f32[3])
model big_model = onnx "big.onnx" (x: f32[N]) -> (y: f32[N]) batch none

pipeline tiny(a: f32[{WIDTH}], b: f32[{WIDTH}]) -> (sum: f32[{WIDTH}], difference: f32[{WIDTH}]) {{
    s, d = tiny_model(a, b)
    return sum = s, difference = d
}}

pipeline words(x: string[N]) -> (y: string[N]) {{
    return y = text.upper(x)
}}

pipeline image(x: u8[{SIDE}, {SIDE}, 3]) -> (mean: f32[3]) {{
    return mean = image_model(x)
}}

pipeline big(x: f32[N]) -> (y: f32[N]) {{
    return y = big_model(x)
}}

pipeline count(most: i64) -> stream (n: i64) {{
    loop (n: i64 = 0) max most {{
        emit n = n
        next n = n + 1
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a model is sent, and what it has to answer."""

    model: str
    inputs: Arrays
    outputs: Arrays


def asked() -> dict[str, Asked]:
    """Return a request for each model."""
    random = np.random.default_rng(7)
    a, b = (random.random(WIDTH, np.float32) for _ in range(2))
    image = random.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    words = np.array([b"word %d" % number for number in range(WORDS)], object)
    big = random.random(BIG, np.float32)
    requests = (
        Asked("tiny", {"a": a, "b": b}, {"sum": a + b, "difference": a - b}),
        Asked("words", {"x": words}, {"y": np.array([word.upper() for word in words], object)}),
        Asked("image", {"x": image}, {"mean": image.mean((0, 1), np.float64).astype(np.float32)}),
        Asked("big", {"x": big}, {"y": -big}),
    )
    return {request.model: request for request in requests}


def write_models(folder: Path) -> None:
    """Write the ONNX files and a source that serves them."""
    for name, model in (("tiny", _tiny()), ("image", _image()), ("big", _big())):
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    (folder / "wire.pipe").write_text(PIPES)


def computing(folder: Path) -> dict[str, Callable[[Arrays], Arrays]]:
    """Return the models as functions, with nothing around them."""
    import onnxruntime

    def of_session(path: Path, batched: bool) -> Callable[[Arrays], Arrays]:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        session: Any = onnxruntime.InferenceSession(  # Any: it says too little of what run returns
            path, settings, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]

        def run(inputs: Arrays) -> Arrays:
            if not batched:
                return dict(zip(names, session.run(names, inputs), strict=True))
            given = {name: array[np.newaxis] for name, array in inputs.items()}
            return {
                name: output[0]
                for name, output in zip(names, session.run(names, given), strict=True)
            }

        return run

    def words(inputs: Arrays) -> Arrays:
        upper = [word.decode().upper().encode() for word in inputs["x"]]
        return {"y": np.array(upper, object)}

    return {
        "tiny": of_session(folder / "tiny.onnx", True),
        "image": of_session(folder / "image.onnx", True),
        "big": of_session(folder / "big.onnx", False),
        "words": words,
    }


def _model(nodes: list[Any], inputs: list[Any], outputs: list[Any], *constants: Any) -> ModelProto:
    graph = helper.make_graph(nodes, "model", inputs, outputs, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _tiny() -> ModelProto:
    """Return a + b and a - b with a batch axis: what is left is the cost of the way."""

    def value(name: str) -> Any:  # Any: as onnx has it
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", WIDTH])

    return _model(
        [
            helper.make_node("Add", ["a", "b"], ["sum"]),
            helper.make_node("Sub", ["a", "b"], ["difference"]),
        ],
        [value("a"), value("b")],
        [value("sum"), value("difference")],
    )


def _image() -> ModelProto:
    """Return the mean of each colour."""
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, ["B", SIDE, SIDE, 3])
    mean = helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["B", 3])
    return _model(
        [
            helper.make_node("Cast", ["x"], ["real"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["real"], ["mean"], axes=[1, 2], keepdims=0),
        ],
        [x],
        [mean],
    )


def _big() -> ModelProto:
    """Return -x, of any length."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in ("x", "y"))
    return _model([helper.make_node("Neg", ["x"], ["y"])], [x], [y])
