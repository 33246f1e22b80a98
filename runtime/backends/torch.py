"""PyTorch: TorchScript (`torch.jit.save`), exported programs (`torch.export.save`) and what
AOTInductor has compiled (`torch._inductor.aoti_compile_and_package`).

Inputs and outputs go by position. Such a file is code, as Python is: PyTorch may unpickle parts of
an exported program, and what AOTInductor makes is a shared library.
"""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn, cast

import numpy as np

from ...dsl.types import DType
from ...stdlib.dtypes import to_numpy
from ...stdlib.op import Array
from ..load_error import BAD_MODEL, NO_DEVICE, OTHER_MODEL, LoadError
from ..model_backend import Model, Port, library, model_backend, pair
from ..request import Code
from ..stage import StageGone

_SHOWN: Final = 500
_BF16: Final = to_numpy(DType.BF16)


class TorchSession:
    """A module that takes and gives tensors. PyTorch runs it from several threads."""

    def __init__(self, model: Model) -> None:
        torch: Any = library("torch", "torch")  # Any: it is partly typed
        for port in (*model.inputs, *model.outputs):
            if port.dtype in (DType.STRING, DType.BYTES):
                message = f"PyTorch has no text, and {port} is declared"
                raise LoadError(OTHER_MODEL, message, "declare numbers")
        kind, _, index = model.device.partition(":")
        self._device = f"cuda:{index}" if kind == "gpu" else "cpu"
        if kind == "gpu" and int(index) >= torch.cuda.device_count():
            message = f"the plan asks for {model.device}, and PyTorch finds no such GPU"
            raise LoadError(NO_DEVICE, message, "install a PyTorch built for CUDA, and its driver")
        try:
            self._call, inputs = _read(torch, model, self._device)
        except LoadError:
            raise
        except Exception as error:  # of as many kinds as there are ways to break a file
            said = str(error).strip().partition("\n")[0][:_SHOWN] or type(error).__name__
            raise LoadError(BAD_MODEL, f"PyTorch does not load the model: {said}") from error
        if inputs is not None:
            positions = [Port(one.name, *rest) for one, rest in zip(model.inputs, inputs)]  # noqa: B905
            rest = [Port(f"input {n}", *one) for n, one in enumerate(inputs)][len(positions) :]
            pair(model.inputs, [*positions, *rest], "input")
        self._torch = torch
        self._names = tuple(port.name for port in model.inputs)
        self._threads = max(1, model.share.threads)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        torch = self._torch
        if torch.get_num_threads() != self._threads:  # it has one number for all of a process
            torch.set_num_threads(self._threads)
        given = [self._tensor(feeds[name]) for name in self._names]
        with torch.inference_mode():
            found = self._call(*given)
        values = [found] if isinstance(found, torch.Tensor) else found
        if isinstance(values, dict):
            values = list(cast("dict[str, Any]", values).values())  # Any: tensors
        return [self._array(one) for one in cast("Sequence[Any]", values)]  # Any: tensors

    def close(self) -> None:
        """Let go of the module, whoever still holds this."""
        self._call = _closed

    def _tensor(self, array: Array) -> Any:  # Any: a tensor
        """Return a copy, for a module may write to what it is given, and others read that."""
        if array.dtype == _BF16:
            tensor = self._torch.from_numpy(array.view(np.int16).copy()).view(self._torch.bfloat16)
        else:
            tensor = self._torch.from_numpy(np.array(array, order="C"))
        return tensor.to(self._device)

    def _array(self, tensor: Any) -> Array:  # Any: a tensor
        tensor = tensor.detach().cpu().contiguous()
        if tensor.dtype == self._torch.bfloat16:
            return tensor.view(self._torch.int16).numpy().view(_BF16)
        return tensor.numpy()


def _closed(*_: object) -> NoReturn:
    raise StageGone(Code.UNAVAILABLE, "the model has been closed")


_Inputs = Sequence["tuple[DType | None, tuple[int | None, ...] | None]"]


def _read(torch: Any, model: Model, device: str) -> tuple[Callable[..., object], _Inputs | None]:
    """Return what is called, and what is known of its inputs. Any: as above."""
    with zipfile.ZipFile(BytesIO(model.content)) as archive:
        names = archive.namelist()
    if any("data/aotinductor/" in name for name in names):
        with TemporaryDirectory(prefix="headrace-") as folder:
            path = Path(folder) / "model.pt2"
            path.write_bytes(model.content)
            return torch._inductor.aoti_load_package(str(path)), None
    if any(name.endswith("constants.pkl") for name in names):
        module = torch.jit.load(BytesIO(model.content), map_location=device).eval()
        arguments = module.forward.schema.arguments[1:]
        needed = [one for one in arguments if not one.has_default_value()]
        return module, [(None, None) for _ in needed]
    program = torch.export.load(BytesIO(model.content))
    placed = program if device == "cpu" else _moved(program, device)
    wanted = set(program.graph_signature.user_inputs)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    values = [node.meta["val"] for node in nodes if node.name in wanted]
    return placed.module(), [(_dtype(torch, one), _dims(one)) for one in values]


def _moved(program: Any, device: str) -> Any:  # Any: as above
    from torch.export.passes import move_to_device_pass  # pyright: ignore[reportMissingImports]

    return move_to_device_pass(program, device)


def _dtype(torch: Any, value: Any) -> DType | None:  # Any: as above
    name = str(value.dtype).removeprefix("torch.")
    if value.dtype == torch.bfloat16:
        return DType.BF16
    if name == "bool":
        return DType.BOOL
    found = {str(to_numpy(one)): one for one in DType if not to_numpy(one).hasobject}
    return found.get(name)


def _dims(value: Any) -> tuple[int | None, ...]:  # Any: as above
    return tuple(size if isinstance(size, int) else None for size in value.shape)


BACKEND = model_backend(TorchSession, ("torch",))
