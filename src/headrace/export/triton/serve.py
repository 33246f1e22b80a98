"""What runs a pipeline in a tritonserver: a model of its Python backend that carries a light plan.

Its models are others of the same server, asked through BLS (`runtime/backends/triton_bls.py`);
their rows meet those of all other traffic there. Values travel as on a server of ours.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...compiler import plan_file
from ...runtime.engine import Engine, EngineConfig
from ...runtime.protocols.datatypes import DATATYPES, Datatype
from ...runtime.protocols.inputs import read_inputs
from ...runtime.protocols.models import model_of
from ...runtime.protocols.raw import Flat
from ...runtime.protocols.results import WireTensor, result_tensors
from ...runtime.request import Code, Fault, InSequence, Request
from ...stdlib.op import Item
from .light import PLAN_FILE

WORKERS: Final = 8
"""Threads that wait for other models; what computes is not among them."""

_NAMES: Final = {one.numpy: one.name for one in DATATYPES.values() if one.width}
_START, _END = 1, 2  # flags of a request of a sequence


class TritonPythonModel:
    """As Triton's Python backend wants one: `initialize`, `execute`, `finalize`."""

    def initialize(self, args: dict[str, str]) -> None:
        import triton_python_backend_utils as pb  # type: ignore[import-not-found] of tritonserver

        self._pb: Any = pb  # Any: it has no types
        version = args["model_version"]
        plan = plan_file.read(Path(args["model_repository"], version, PLAN_FILE))
        self._model = model_of(plan, plan.pipelines[0], version)
        self._engine = Engine(plan, EngineConfig(workers=WORKERS))

    def finalize(self) -> None:
        self._engine.close()

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:  # Any: Triton's own
        if self._model.pipeline.stream:
            for request in requests:
                self._send_all(request)
            return None
        if len(requests) == 1:
            return [self._answer(requests[0])]
        started = [self._start(request) for request in requests]
        return [self._finish(*one) for one in zip(requests, started, strict=True)]

    def _answer(self, request: Any) -> Any:  # Any: Triton's own
        """Answer a request that is alone, in this thread."""
        try:
            return self._response(self._engine.call(self._request(request)).outputs)
        except Fault as fault:
            return self._failed(fault)

    def _start(self, request: Any) -> "Future[Any] | Fault":  # Any: Triton's own; a Response
        try:
            return self._engine.submit(self._request(request))
        except Fault as fault:
            return fault

    def _finish(self, request: Any, started: "Future[Any] | Fault") -> Any:  # Any: as above
        del request
        if isinstance(started, Fault):
            return self._failed(started)
        try:
            return self._response(started.result().outputs)
        except Fault as fault:
            return self._failed(fault)

    def _send_all(self, request: Any) -> None:  # Any: Triton's own
        """Answer a request of a stream, response by response."""
        sender = request.get_response_sender()
        try:
            for outputs in self._emitted(request):
                sender.send(self._response(outputs))
        except Fault as fault:
            sender.send(self._failed(fault))
        sender.send(flags=self._pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _emitted(self, request: Any) -> Iterator[dict[str, Item]]:  # Any: Triton's own
        ours = self._request(request)
        return self._engine.stream(
            self._engine.pipeline(ours.pipeline),
            ours.inputs,
            ours.deadline,
            ours.sequence,
            ours,
        )

    def _request(self, request: Any) -> Request:  # Any: Triton's own
        given = [
            (tensor.name(), _datatype(array), array.shape, array)
            for tensor in request.inputs()
            for array in (tensor.as_numpy(),)
        ]
        timeout = request.timeout()
        return Request(
            self._model.name,
            read_inputs(self._model, given, _read, sys.maxsize),  # Triton has taken them apart
            request.request_id(),
            deadline=time.monotonic() + timeout / 1e6 if timeout else None,
            outputs=self._model.wanted(request.requested_output_names()),
            parameters=json.loads(request.parameters() or "{}"),
            sequence=self._sequence(request),
        )

    def _sequence(self, request: Any) -> InSequence | None:  # Any: Triton's own
        if self._model.pipeline.idle is None:
            return None
        flags = request.flags()
        start, end = bool(flags & _START), bool(flags & _END)
        return InSequence(request.correlation_id(), start, end, remote=True)

    def _response(self, outputs: Any) -> Any:  # Any: values by name; Triton's own
        forms = self._model.outputs
        return self._pb.InferenceResponse(
            [
                self._pb.Tensor(tensor.name, _array(tensor))
                for name, item in outputs.items()
                for tensor in result_tensors(forms[name], item)
            ]
        )

    def _failed(self, fault: Fault) -> Any:  # Any: Triton's own
        kinds = self._pb.TritonError
        kind = {
            Code.INVALID: kinds.INVALID_ARG,
            Code.NOT_FOUND: kinds.NOT_FOUND,
            Code.UNSUPPORTED: kinds.UNSUPPORTED,
            Code.CANCELLED: kinds.CANCELLED,
            Code.OVERLOADED: kinds.UNAVAILABLE,
            Code.UNAVAILABLE: kinds.UNAVAILABLE,
            Code.DEADLINE: kinds.UNAVAILABLE,
        }.get(fault.code, kinds.INTERNAL)
        return self._pb.InferenceResponse(error=kinds(str(fault), kind))


def _datatype(array: "np.ndarray[Any, Any]") -> str:  # Any: of any shape and scalar
    return _NAMES.get(array.dtype, "BYTES")


def _read(source: "np.ndarray[Any, Any]", datatype: Datatype, count: int) -> Flat:  # Any: likewise
    del count  # Triton has compared it with the shape
    return source.ravel() if datatype.width else source.ravel().tolist()


def _array(tensor: WireTensor) -> "np.ndarray[Any, Any]":  # Any: likewise
    if tensor.datatype.width:
        return np.ascontiguousarray(tensor.flat).reshape(tensor.shape)
    return as_bytes(tensor.flat).reshape(tensor.shape)


def as_bytes(values: Iterable[Any]) -> "np.ndarray[Any, Any]":  # Any: text or bytes; likewise
    """Return text as Triton's Python backend has it: an array of byte strings."""
    encoded = [one.encode() if isinstance(one, str) else one for one in values]
    return np.array([*encoded, None], object)[:-1]
