"""The ways a stock client has to ask: HTTP with JSON, HTTP with binary tensors, gRPC."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import np_to_triton_dtype

from headrace.runtime.server import Server
from tests.runtime.drivers import LONG, Meeting

WAYS = ("http json", "http binary", "grpc")


class Way:
    """A client, with the form in which it sends and wants tensors."""

    def __init__(self, server: Server, name: str) -> None:
        kind, _, form = name.partition(" ")
        self.module: Any = tritonclient.http if kind == "http" else tritonclient.grpc
        self._form: dict[str, bool] = {} if kind == "grpc" else {"binary_data": form == "binary"}
        address = server.addresses.http if kind == "http" else server.addresses.grpc
        self.client = self.module.InferenceServerClient(str(address))

    def __enter__(self) -> "Way":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def tensor(self, name: str, array: np.ndarray, shape: Sequence[int] | None = None) -> Any:
        """An input that says it has `shape`, whatever it carries."""
        made = self.module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        made.set_data_from_numpy(array, **self._form)
        if shape is not None:
            made.set_shape(list(shape))
        return made

    def infer(
        self, model: str, *tensors: Any, outputs: Sequence[str] | None = None, **options: Any
    ) -> Mapping[str, np.ndarray]:
        """Ask, and return the outputs by name; all of those that the model has by default."""
        names = outputs or self._outputs(model)
        wanted = [self.module.InferRequestedOutput(name, **self._form) for name in names]
        answer = self.client.infer(model, list(tensors), outputs=wanted, **options)
        response = answer.get_response()
        found = response["outputs"] if isinstance(response, dict) else response.outputs
        given = [one["name"] if isinstance(one, dict) else one.name for one in found]
        return {name: answer.as_numpy(name) for name in given}

    def ask(self, model: str, **inputs: np.ndarray) -> Mapping[str, np.ndarray]:
        """Ask with inputs that are what they say."""
        return self.infer(model, *(self.tensor(*one) for one in inputs.items()))

    def _outputs(self, model: str) -> list[str]:
        metadata = self.client.get_model_metadata(model)
        found = metadata["outputs"] if isinstance(metadata, dict) else metadata.outputs
        return [one["name"] if isinstance(one, dict) else one.name for one in found]


def words(array: np.ndarray) -> list[str]:
    """Return strings as text, which clients give as bytes where they come as such."""
    return [one.decode() if isinstance(one, bytes) else str(one) for one in array.tolist()]


class Held(Meeting):
    """Also keeps requests in a stage until they are let go, and tells which stages they ran in."""

    def __init__(self, name: str) -> None:
        super().__init__(name, together=True)
        self.ran: list[str] = []
        self._holds: dict[str, tuple[threading.Event, threading.Event]] = {}

    def hold(self, at: str) -> None:
        """Keep whoever comes to `stage tag`."""
        self._holds[at] = (threading.Event(), threading.Event())

    def come(self, at: str) -> None:
        """Called by the stages."""
        self.ran.append(at)
        if at in self._holds:
            entered, released = self._holds[at]
            entered.set()
            assert released.wait(LONG)

    def entered(self, at: str) -> None:
        """Return when somebody is there."""
        assert self._holds[at][0].wait(LONG)

    def release(self) -> None:
        """Let all go on."""
        holds, self._holds = self._holds, {}
        for _, released in holds.values():
            released.set()
