"""LiteRT: `.tflite` files. An interpreter serves one thread, so as many are made as run at once."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ...dsl.types import DType
from ...stdlib.dtypes import from_numpy
from ...stdlib.op import Array
from ..load_error import BAD_MODEL, NO_DEVICE, OTHER_MODEL, LoadError
from ..model_backend import Model, Port, Spares, library, model_backend, pair

_SHOWN: Final = 500


class LiteRtSession:
    """Tensors by name as the file's first signature has them, else by their own names."""

    def __init__(self, model: Model) -> None:
        module: Any = library("ai_edge_litert.interpreter", "litert")  # Any: it has no types
        if model.device != "cpu":
            message = f"the plan asks for {model.device}, and LiteRT runs on cpu here"
            raise LoadError(NO_DEVICE, message, "leave out `device`")
        for port in (*model.inputs, *model.outputs):
            if port.dtype in (DType.STRING, DType.BYTES):
                message = f"text is not given to LiteRT, and {port} is declared"
                raise LoadError(OTHER_MODEL, message, "declare numbers")

        def interpreter() -> Any:  # Any: likewise
            made = module.Interpreter(
                model_content=model.content, num_threads=max(1, model.share.threads)
            )
            made.allocate_tensors()
            return made

        try:
            self._spares: Spares[Any] = Spares(interpreter)
        except (ValueError, RuntimeError, TypeError) as error:
            said = str(error)[:_SHOWN] or type(error).__name__
            raise LoadError(BAD_MODEL, f"LiteRT does not load the model: {said}") from error
        with self._spares.one() as first:
            inputs, outputs = _tensors(first)
        found = pair(model.inputs, [port for port, _ in inputs], "input")
        given = pair(model.outputs, [port for port, _ in outputs], "output")
        places = {port.name: place for port, place in inputs}
        self._inputs = [
            (one.name, places[other.name]) for one, other in zip(model.inputs, found, strict=True)
        ]
        places = {port.name: place for port, place in outputs}
        self._outputs = [places[other.name] for other in given]

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        with self._spares.one() as interpreter:
            sizes = {one["index"]: one["shape"] for one in interpreter.get_input_details()}
            changed = False
            for name, place in self._inputs:
                shape = feeds[name].shape
                if tuple(sizes[place]) != shape:
                    interpreter.resize_tensor_input(place, shape, strict=True)
                    changed = True
            if changed:
                interpreter.allocate_tensors()
            for name, place in self._inputs:
                interpreter.set_tensor(place, feeds[name])
            interpreter.invoke()
            return [interpreter.get_tensor(place) for place in self._outputs]

    def close(self) -> None:
        self._spares.close()


def _tensors(interpreter: Any) -> "tuple[list[tuple[Port, int]], list[tuple[Port, int]]]":
    """Return inputs and outputs, each with its number. Any: as above."""
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    signatures = interpreter.get_signature_list()
    if signatures:
        runner = interpreter.get_signature_runner(next(iter(signatures)))
        inputs = _named(runner.get_input_details())
        outputs = _named(runner.get_output_details())
    return [_port(one) for one in inputs], [_port(one) for one in outputs]


def _named(details: "dict[str, dict[str, Any]]") -> "list[dict[str, Any]]":  # Any: as above
    return [{**one, "name": name} for name, one in details.items()]


def _port(detail: "dict[str, Any]") -> tuple[Port, int]:  # Any: as above
    sizes = detail["shape_signature"] if len(detail["shape_signature"]) else detail["shape"]
    dims = tuple(None if size < 0 else int(size) for size in sizes)
    return Port(detail["name"], from_numpy(np.dtype(detail["dtype"])), dims), detail["index"]


BACKEND = model_backend(LiteRtSession, ("litert",))
