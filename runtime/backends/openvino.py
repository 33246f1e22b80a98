"""OpenVINO: its own files (`.xml` with `.bin` beside it), and ONNX models where a schedule says so.

Text is refused: reading results of strings breaks the heap of the process (seen with 2026.4.1).
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ...dsl.types import DType
from ...stdlib.dtypes import to_numpy
from ...stdlib.op import Array
from ..load_error import BAD_MODEL, NO_DEVICE, LoadError
from ..model_backend import Model, Port, Spares, library, model_backend, pair
from ..model_folder import is_folder, unpacked

_SHOWN: Final = 500
_TEXT: Final = (DType.STRING, DType.BYTES)
_BF16: Final = to_numpy(DType.BF16)
_DTYPES: Final = {one.value: one for one in DType if one is not DType.BYTES} | {
    "boolean": DType.BOOL
}


class OpenVinoSession:
    """A compiled model; each run has a request of its own."""

    def __init__(self, model: Model) -> None:
        openvino: Any = library("openvino", "openvino")  # Any: it is partly typed
        if any(one.dtype in _TEXT for one in (*model.inputs, *model.outputs)):
            help = "leave it to another backend"
            raise LoadError(BAD_MODEL, "OpenVINO is not given models that take or give text", help)
        core = openvino.Core()
        device = _device(model.device, core.available_devices)
        read = _read(core, model)
        try:
            compiled = core.compile_model(read, device, _config(model))
        except RuntimeError as error:
            raise _refused(error) from error
        inputs = pair(model.inputs, [_port(one) for one in compiled.inputs], "input")
        outputs = pair(model.outputs, [_port(one) for one in compiled.outputs], "output")
        names = {one.any_name: index for index, one in enumerate(compiled.inputs)}
        self._inputs = [
            (one.name, names[other.name]) for one, other in zip(model.inputs, inputs, strict=True)
        ]
        self._openvino = openvino
        places = {one.any_name: index for index, one in enumerate(compiled.outputs)}
        self._outputs = [
            (places[other.name], to_numpy(other.dtype or DType.F32)) for other in outputs
        ]
        self._requests: Spares[Any] = Spares(compiled.create_infer_request)  # Any: likewise

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        given = {place: self._given(feeds[name]) for name, place in self._inputs}
        with self._requests.one() as request:
            found = request.infer(given, share_inputs=True)
            return [_taken(found[place], dtype) for place, dtype in self._outputs]

    def _given(self, array: Array) -> Any:  # Any: an array, or OpenVINO's own tensor
        if array.dtype == _BF16:  # NumPy has none, so it is taken for bytes that OpenVINO names
            raw = np.ascontiguousarray(array).view(np.float16)
            return self._openvino.Tensor(raw, raw.shape, self._openvino.Type.bf16)
        return array

    def close(self) -> None:
        self._requests.close()


def _device(device: str, available: list[str]) -> str:
    kind, _, index = device.partition(":")
    wanted = {"cpu": "CPU", "gpu": f"GPU.{index}"}.get(kind, device)
    if wanted not in available and not (wanted == "GPU.0" and "GPU" in available):
        raise LoadError(
            NO_DEVICE,
            f"the plan asks for {device}, and OpenVINO finds {', '.join(available) or 'none'}",
            "name another device or backend in the schedule: OpenVINO runs on Intel's GPUs",
        )
    return wanted


def _config(model: Model) -> dict[str, object]:
    """Let as many runs go on at once as there are threads for, each with its share; and round as
    ONNX Runtime does, not to bf16."""
    if model.device != "cpu":
        return {"INFERENCE_PRECISION_HINT": "f32"}
    threads = max(1, model.share.threads)
    streams = max(1, model.share.cores // threads)
    return {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads * streams,
        "NUM_STREAMS": streams,
        "ENABLE_CPU_PINNING": False,
    }


def _read(core: Any, model: Model) -> Any:  # Any: as above
    try:
        if model.kind == "openvino" and is_folder(model.content):
            with unpacked(model.content) as folder:
                return core.read_model(
                    (folder / "model.xml").read_bytes(), (folder / "model.bin").read_bytes()
                )
        return core.read_model(model.content)
    except (RuntimeError, OSError) as error:
        raise _refused(error) from error


def _refused(error: Exception) -> LoadError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = next((line for line in reversed(lines) if not line.startswith("Exception from")), "")
    return LoadError(BAD_MODEL, f"OpenVINO does not load the model: {text[:_SHOWN]}")


def _port(node: Any) -> Port:  # Any: as above
    shape = node.get_partial_shape()
    dims = None
    if shape.rank.is_static:
        dims = tuple(dim.get_length() if dim.is_static else None for dim in shape)
    return Port(node.any_name, _DTYPES.get(node.get_element_type().get_type_name()), dims)


def _taken(found: Array, dtype: "np.dtype[Any]") -> Array:  # Any: of any scalar
    return found.view(_BF16) if dtype == _BF16 else found


BACKEND = model_backend(OpenVinoSession, ("openvino", "onnx"))
