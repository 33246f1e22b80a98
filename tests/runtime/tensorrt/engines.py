"""Small models, as segments with engines, on a simulated device whose streams have addresses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import headrace
from headrace.compiler.plan import ModelSegment
from headrace.runtime.devices.cuda_driver import Gpu
from headrace.runtime.devices.device import View
from headrace.runtime.devices.sim import SimDevice, SimStream
from headrace.runtime.instance import ModelStage
from headrace.runtime.metrics import StageCell
from headrace.runtime.rows import Rows
from headrace.runtime.stage import policy_of
from headrace.runtime.tensorrt.opening import open_session
from headrace.runtime.tensorrt.package import Package, described
from headrace.runtime.tensorrt.session import EngineSession
from tests.runtime.tensorrt.signatures import versions
from tests.runtime.tensorrt.stand_in import stand_in

GPU = Gpu("NVIDIA Stand-in", 90, 13000)
VERSIONS = versions()
NEWEST = VERSIONS[-2]

OCR = Path(__file__).parents[3] / "examples" / "ocr"
OCR_SCHEDULE = """
schedule ocr on "rtx" {
    device = gpu(0)
    detect {
        backend = tensorrt_rtx
        engine { sizes { H = [736, 736, 2048], W = [736, 1280, 4096] }, workspace = 2GiB }
    }
    angle { backend = tensorrt_rtx, batch { max = 32, prefer = [8] } }
    read {
        backend = tensorrt_rtx
        batch { max = 16, prefer = [8] }
        engine { sizes { W = [320, 640, 2304] } }
    }
}
"""

PIPE = """
model m = onnx "m.onnx" {signature} {batch}

pipeline p{signature} {{
    {body}
}}

schedule p {{
    m {{ device = gpu(0), backend = tensorrt, {settings} }}
}}
"""


class NumberedStream(SimStream):
    """A stream with an address, as libraries want one."""

    @property
    def pointer(self) -> int:
        return self.number


class NumberedDevice(SimDevice):
    """The simulated device with such streams; new memory is poisoned, stray reads die."""

    def stream(self) -> NumberedStream:
        return NumberedStream(self, next(self._numbers))


def write(path: Path, nodes: Sequence[Any], inputs: Any, outputs: Any, weights: Any = ()) -> None:
    def values(named: Any) -> list[Any]:
        return [helper.make_tensor_value_info(n, t, dims) for n, (t, dims) in named.items()]

    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), list(weights))
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path.write_bytes(model.SerializeToString())


def scaled(path: Path, by: float = 3.0) -> None:
    """Write a model that gives each row of x, times a weight, and its half."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [by])
    half = helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5])
    shape = (TensorProto.FLOAT, ["N", "K"])
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["y"]),
        helper.make_node("Mul", ["y", "half"], ["z"]),
    ]
    write(path, nodes, {"x": shape}, {"y": shape, "z": shape}, [weight, half])


SCALED = "(x: f32[K]) -> (y: f32[K], z: f32[K])"
SIZES = "batch { max = 8, prefer = [4] }, engine { sizes { K = [1, 4, 16] } }"


def segment_of(
    folder: Path, signature: str, settings: str = SIZES, batch: str = ""
) -> tuple[ModelSegment, bytes]:
    """Return the segment of a model in a folder, and the bytes that it runs."""
    names = [part.split(":")[0].strip() for part in signature.split("-> (")[1].split(", ")]
    names = [name for name in names if name.isidentifier()]
    given = [part.split(":")[0] for part in signature.split(")")[0].strip("(").split(", ")]
    call = f"{', '.join(names)} = m({', '.join(one for one in given if one.isidentifier())})"
    returned = ", ".join(f"{name} = {name}" for name in names)
    body = f"{call}\n    return {returned}"
    path = folder / "p.pipe"
    path.write_text(PIPE.format(signature=signature, body=body, settings=settings, batch=batch))
    plan = headrace.compile(path).plan
    (segment,) = plan.segments
    assert isinstance(segment, ModelSegment)
    assert segment.backend == "tensorrt"
    return segment, plan.blob(segment.model)


def package_of(version: str, **settings: Any) -> Package:
    name = "tensorrt_rtx" if version.startswith("rtx") else "tensorrt"
    return described(stand_in(version, **settings), name)


def opened(
    segment: ModelSegment,
    content: bytes,
    device: NumberedDevice,
    package: Package,
    folder: Path | None = None,
) -> tuple[ModelStage, EngineSession]:
    session = open_session(package, segment, content, device, GPU, folder)
    return ModelStage(segment, session, device, policy_of(segment), 0), session


def run(stage: ModelStage, device: NumberedDevice, *rows: np.ndarray[Any, Any]) -> list[Rows]:
    stream = device.stream()
    views: list[Any] = [device.upload(row, "m", stream) for row in rows]
    return stage.run([Rows.of(views)], len(views), StageCell())


def read(device: NumberedDevice, rows: Rows, row: int) -> Any:
    view = rows.item(row)
    assert isinstance(view, View)
    return device.download(view, "m", device.stream())
