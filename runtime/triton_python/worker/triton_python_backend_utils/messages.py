"""Requests, responses and errors; asking another model, and answering from anywhere."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Sequence
from typing import Any

from .contents import pack
from .engine import WORKER
from .link import Ask, Responded
from .tensor import Tensor, TritonModelException

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

TRITONSERVER_MEMORY_GPU = "GPU"
TRITONSERVER_MEMORY_CPU = "CPU"


class TritonError:
    """Why a request has failed, and of what kind that is."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG = 0, 1, 2, 3
    UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = 4, 5, 6, 7

    def __init__(self, message: Any, code: int = INTERNAL) -> None:
        if not isinstance(message, str):
            raise TypeError(f"a TritonError has a text, not {type(message).__name__}")
        self._message, self._code = message, int(code)

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code


class PreferredMemory:
    """Where answers are wanted; here they are in the host's memory."""

    def __init__(self, preferred_memory_type: Any, preferred_device_id: int = 0) -> None:
        self.kind, self.device = preferred_memory_type, preferred_device_id


class InferenceTrace:
    """What is traced of a request; given to a nested one, that belongs to it."""

    def __init__(self, context: str = "", number: int | None = None) -> None:
        self._context, self.number = context, number

    def get_context(self) -> str | None:
        return self._context or None


class InferenceResponse:
    """One answer to a request: outputs, or an error."""

    def __init__(
        self,
        output_tensors: Sequence[Any] = (),
        error: Any = None,
        parameters: Any = None,
    ) -> None:
        for one in output_tensors:
            if not isinstance(one, Tensor):
                raise TypeError(f"an output is a Tensor, not {type(one).__name__}")
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(f"an error is a TritonError, not {type(error).__name__}")
        self._outputs: list[Tensor] = list(output_tensors)
        self._error: TritonError | None = error
        self._parameters = "" if parameters is None else dumped(parameters)

    def output_tensors(self) -> list[Tensor]:
        return self._outputs

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error

    def parameters(self) -> str:
        return self._parameters


class InferenceResponseSender:
    """Answers one request, from any thread, also when `execute` has returned."""

    def __init__(self, number: int) -> None:
        self._number, self._sent, self.closed = number, 0, False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        if flags not in (0, TRITONSERVER_RESPONSE_COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if flags == 0 and response is None:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        self.count(response, flags)
        engine = WORKER.required("A response sender")
        chunks: list[Any] = []
        header = answered(response, flags, chunks)
        if response is not None and not flags and WORKER.decoupled:
            engine.respond(self._number, header, chunks)  # waits for who reads too slowly
            return
        engine.send(header, chunks, self._number)
        if flags:
            engine.forget(self._number)

    def count(self, response: InferenceResponse | None, flags: int) -> None:
        """Note an answer; raises where there may be no more."""
        if not WORKER.decoupled:
            if response is not None and self._sent:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send more than one "
                    "response."
                )
            if response is None and flags and not self._sent:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send complete final "
                    "before sending a response."
                )
        if self.closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        self._sent += response is not None
        self.closed = bool(flags)

    def is_cancelled(self) -> bool:
        header, _ = WORKER.required("A response sender").ask(
            {"do": "cancelled", "request": self._number}
        )
        return header["cancelled"]


def answered(
    response: InferenceResponse | None, final: int, chunks: list[Any]
) -> dict[str, Any] | Responded:
    """Return what a message says of a response, which is the last if it is `final`."""
    if response is None:
        return {"do": "response", "final": final}
    error = response.error()
    if error is not None:
        return {"do": "response", "final": final, "error": [error.message(), error.code()]}
    packed = [one.packed() for one in response.output_tensors()]
    return Responded("response", final, response.parameters(), pack(packed, chunks))


_made = object.__new__


class InferenceRequest:
    """A request: one that the model is to answer, or one that it makes of another model."""

    _id, _parameters = "", "{}"
    _correlation: int | str = 0
    _version, _flags, _timeout = -1, 0, 0
    _number: int | None = None  # of one that was made here
    _trace: InferenceTrace | None = None
    release = TRITONSERVER_REQUEST_RELEASE_ALL
    sender: InferenceResponseSender | None = None
    """What has been asked for to answer it, if it was."""

    def __init__(
        self,
        request_id: str | bytes = "",
        correlation_id: Any = 0,
        inputs: Sequence[Any] = (),
        requested_output_names: Sequence[str | bytes] = (),
        model_name: str | bytes = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory | None = None,
        trace: InferenceTrace | None = None,
        parameters: Any = None,
    ) -> None:
        for one in inputs:
            if not isinstance(one, Tensor):
                raise TypeError(
                    f"Input tensor for request with id '{request_id}' and model name "
                    f"'{model_name}' should not be empty."
                )
        if not isinstance(correlation_id, (int, str)):
            raise TritonModelException("Correlation ID must be integer or string")
        del preferred_memory  # answers are in the host's memory, whatever is preferred
        self._id = _text(request_id)
        self._inputs: list[Tensor] = list(inputs)
        self._correlation = correlation_id
        self._outputs = frozenset(_text(one) for one in requested_output_names)
        self._model, self._version = _text(model_name), model_version
        self._flags, self._timeout = flags, timeout
        self._trace = trace
        self._parameters = dumped(parameters)

    @staticmethod
    def received(number: int, inputs: list[Tensor], told: Any = None) -> InferenceRequest:
        """Return the request that a message holds."""
        one = _made(InferenceRequest)
        one._number, one._inputs = number, inputs
        one._model, one._outputs = WORKER.model, WORKER.outputs
        if told is None:
            return one
        one._id, one._parameters = told["id"], told["parameters"] or "{}"
        one._correlation, one._flags = told["correlation"], told["flags"]
        one._timeout = told["timeout"]
        one._trace = InferenceTrace(told["trace"], number)
        return one

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def request_id(self) -> str:
        return self._id

    def correlation_id(self) -> int | str:
        return self._correlation

    def flags(self) -> int:
        return self._flags

    def set_flags(self, flags: int) -> None:
        self._flags = flags

    def timeout(self) -> int:
        return self._timeout

    def parameters(self) -> str:
        return self._parameters

    def trace(self) -> InferenceTrace:
        if self._trace is None:
            self._trace = InferenceTrace(number=self._number)
        return self._trace

    def requested_output_names(self) -> set[str]:
        return set(self._outputs)

    def get_response_sender(self) -> InferenceResponseSender:
        if self._number is None:
            raise TritonModelException("A request that was made here has no response sender.")
        if self.sender is None:
            self.sender = InferenceResponseSender(self._number)
        return self.sender

    def is_cancelled(self) -> bool:
        return self.get_response_sender().is_cancelled()

    def set_release_flags(self, flags: int) -> None:
        if flags not in (TRITONSERVER_REQUEST_RELEASE_ALL, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE):
            raise TritonModelException("Unable to set request release flags. Unsupported value.")
        self.release = flags

    def exec(self, decoupled: bool = False) -> Any:
        """Ask another model and wait for its answer, of a decoupled one for an iterator."""
        engine = WORKER.required("A nested request")
        chunks: list[Any] = []
        header = self._asked(decoupled, engine.is_main, chunks)
        return _response(engine.ask(header, chunks), decoupled)

    async def _later(self, decoupled: bool) -> Any:
        engine = WORKER.required("A nested request")
        chunks: list[Any] = []
        header = self._asked(decoupled, False, chunks)
        loop = asyncio.get_running_loop()
        return _response(await engine.ask_later(header, chunks, loop), decoupled)

    def async_exec(self, decoupled: bool = False) -> Any:
        """As `exec`, to be awaited; it is under way at once."""
        return asyncio.ensure_future(self._later(decoupled))

    def _asked(self, decoupled: bool, waits: bool, chunks: list[Any]) -> Ask:
        more = self._id, self._correlation, self._flags, self._timeout, self._parameters
        trace = self._trace
        return Ask(
            "ask",
            self._model,
            self._version,
            tuple(sorted(self._outputs)),
            self._number if trace is None else trace.number,
            bool(decoupled),
            waits,
            more if any(more) else None,
            pack([one.packed() for one in self._inputs], chunks),
        )


class ResponseIterator:
    """The answers of a decoupled model, as they come; a second walk gives them once more."""

    def __init__(self, stream: int) -> None:
        self._stream, self._found, self._at = stream, [], 0
        self._over = False
        self._left = weakref.finalize(self, _cancel, stream)
        self._left.atexit = False

    def __iter__(self) -> ResponseIterator:
        self._at = 0
        return self

    def __next__(self) -> InferenceResponse:
        if self._at == len(self._found):
            if self._over:
                raise StopIteration
            answer = WORKER.required("A nested request").ask({"do": "next", "stream": self._stream})
            if answer[0].get("over"):
                self._end()
                raise StopIteration
            response = _response(answer, False)
            if response.has_error():
                self._end()
            self._found.append(response)
        self._at += 1
        return self._found[self._at - 1]

    def _end(self) -> None:
        self._over = True
        self._left.detach()

    def cancel(self) -> None:
        """Ask for no more."""
        self._over = True
        self._left()


def _cancel(stream: int) -> None:
    if WORKER.engine is not None:
        try:
            WORKER.engine.send({"do": "cancel", "stream": stream})
        except OSError:  # the engine has gone, and knows
            return


def _text(given: Any) -> str:
    """Return a text that may have come as bytes, as elements of a tensor do."""
    return given.decode() if isinstance(given, bytes) else str(given)


def _response(answer: Any, decoupled: bool) -> Any:
    header, outputs = answer
    if "error" in header:
        response = InferenceResponse(error=TritonError(*header["error"]))
        return iter((response,)) if decoupled else response
    if decoupled:
        return ResponseIterator(header["stream"])
    return InferenceResponse(outputs)


def dumped(parameters: Any) -> str:
    """Return parameters as JSON; raises where they have what a request cannot."""
    if parameters is None:
        return ""
    if not isinstance(parameters, dict):
        raise TritonModelException("parameters are a dictionary")
    for name, value in parameters.items():
        if not isinstance(name, str):
            raise TritonModelException(f"Expect parameters keys to have type str, found {name!r}.")
        if not isinstance(value, (bool, int, str, float)):
            raise TritonModelException(
                f"Expect parameters values to have type bool/int/str, found type '{type(value)}'."
            )
    return json.dumps(parameters)
