"""TensorFlow: a SavedModel's folder, through its signature `serving_default`."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ...dsl.types import DType
from ...stdlib.dtypes import from_numpy
from ...stdlib.op import Array
from ..load_error import BAD_MODEL, NO_DEVICE, OTHER_MODEL, LoadError
from ..model_backend import Model, Port, library, model_backend, pair
from ..model_folder import is_folder, unpacked

_SIGNATURE: Final = "serving_default"
_SHOWN: Final = 500


class TensorFlowSession:
    """A signature as a function. TensorFlow runs it from several threads."""

    def __init__(self, model: Model) -> None:
        tensorflow: Any = library("tensorflow", "tensorflow")  # Any: it is partly typed
        kind, _, index = model.device.partition(":")
        self._device = f"/GPU:{index}" if kind == "gpu" else "/CPU:0"
        if kind == "gpu" and int(index) >= len(tensorflow.config.list_physical_devices("GPU")):
            message = f"the plan asks for {model.device}, and TensorFlow finds no such GPU"
            raise LoadError(NO_DEVICE, message, "install a TensorFlow built for CUDA")
        if not is_folder(model.content):
            message = "a SavedModel is a folder, and the plan has a file"
            raise LoadError(BAD_MODEL, message, "name the folder that has saved_model.pb in it")
        with unpacked(model.content) as folder:
            try:
                self._module = tensorflow.saved_model.load(str(folder))
            except Exception as error:  # of as many kinds as there are ways to break a file
                said = str(error).replace(str(folder), "it")[:_SHOWN]
                raise LoadError(BAD_MODEL, f"TensorFlow does not load the model: {said}") from error
        self._function: Any = self._module.signatures.get(_SIGNATURE)
        if self._function is None:
            has = ", ".join(map(str, self._module.signatures)) or "none"
            message = f"the model has no signature `{_SIGNATURE}`; it has {has}"
            raise LoadError(OTHER_MODEL, message, "save it with one of that name")
        self._tensorflow = tensorflow
        inputs = [_port(*one) for one in self._function.structured_input_signature[1].items()]
        outputs = [_port(*one) for one in self._function.structured_outputs.items()]
        found = pair(model.inputs, inputs, "input")
        self._inputs = [
            (one.name, other.name) for one, other in zip(model.inputs, found, strict=True)
        ]
        self._outputs = [
            (other.name, one.dtype is DType.STRING)
            for one, other in zip(
                model.outputs, pair(model.outputs, outputs, "output"), strict=True
            )
        ]

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        constant = self._tensorflow.constant
        with self._tensorflow.device(self._device):
            given = {theirs: constant(feeds[ours]) for ours, theirs in self._inputs}
            found = self._function(**given)
        return [_array(found[name].numpy(), text=text) for name, text in self._outputs]

    def close(self) -> None:
        """Let go of the model, whoever still holds this."""
        self._module = self._function = None


def _port(name: str, spec: Any) -> Port:  # Any: as above
    dims = None if spec.shape.rank is None else tuple(spec.shape.as_list())
    text = spec.dtype.name == "string"
    return Port(
        name, DType.STRING if text else from_numpy(np.dtype(spec.dtype.as_numpy_dtype)), dims
    )


def _array(found: Any, *, text: bool) -> Array:  # Any: an array, or a scalar
    array = np.asarray(found)
    if not text:
        return array
    decoded = [one.decode() for one in array.flat]
    return np.array([*decoded, None], object)[:-1].reshape(array.shape)  # else NumPy would look in


BACKEND = model_backend(TensorFlowSession, ("tensorflow",))
