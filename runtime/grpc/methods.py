"""The methods of `inference.GRPCInferenceService`."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from google.protobuf.descriptor import MethodDescriptor

from ...stdlib.op import Item
from ..access import Access
from ..protocols.deliveries import Deliveries
from ..protocols.ext.decoupled import is_decoupled, one_of_stream, wants_empty_final
from ..protocols.faults import FAULT
from ..protocols.field_count import check_fields
from ..protocols.frames import without_tensors
from ..protocols.messages import (
    ModelInferRequest,
    ModelStreamInferResponse,
    message_of,
    service_descriptor,
)
from ..protocols.models import Model
from ..protocols.operation import Later, Operation, as_message
from ..protocols.protobuf_codec import decode_request
from ..protocols.protobuf_writer import encode_response
from ..request import Request, RequestError, Response
from ..service import Service, explain
from ..streams import Stream
from .call import (
    CallError,
    Headers,
    Method,
    Methods,
    Pending,
    Responses,
    StreamMethod,
    call_error,
)
from .parsing import parse
from .status import Status

SERVICE = "inference.GRPCInferenceService"


def inference_methods(service: Service, operations: Sequence[Operation]) -> Methods:
    """Return every method of the service."""
    described = {method.name: method for method in service_descriptor().methods}
    unary: dict[str, Method] = {
        _path(operation.rpc): _answer(service, operation, described[operation.rpc])
        for operation in operations
        if operation.rpc and operation.answer is not None
    }
    unary[_path("ModelInfer")] = partial(_infer, service)
    streams: dict[str, StreamMethod] = {_path("ModelStreamInfer"): partial(_stream_infer, service)}
    asking = (one.rpc for one in operations if one.rpc and _asks_who(service, one))
    return Methods(unary, streams, with_headers=frozenset(map(_path, asking)))


def _path(name: str) -> str:
    return f"/{SERVICE}/{name}"


def _asks_who(service: Service, operation: Operation) -> bool:
    """Whether a method must see the headers; what changes the server always does, and with tokens
    what tells of it, for it tells more to some."""
    match operation.access:
        case Access.PROBE:
            return False
        case Access.INFER:
            return service.reads_headers
        case Access.READ:
            return service.policy.tokens != ()
        case _:
            return True


def _answer(service: Service, operation: Operation, method: MethodDescriptor) -> Method:
    """Return the method of an operation: its message to JSON, and the answer back."""
    asked, given = message_of(method.input_type), message_of(method.output_type)
    respond = operation.answer
    assert respond is not None

    def encode(answer: Any) -> bytes:  # Any: JSON
        return as_message(given, operation.gives(answer)).SerializeToString()

    def call(payload: bytes, _: float | None, headers: Headers) -> bytes | Pending:
        try:
            caller = service.policy.require(operation.access, headers.get("authorization"))
            answer = respond(service, operation.takes(parse(asked, payload)), caller)
            if not isinstance(answer, Later):
                return encode(answer)
        except CallError:
            raise
        except Exception as error:
            raise call_error(explain(error)) from error
        return Pending(answer.future, partial(finish, answer))

    def finish(later: Later, future: Future[Any]) -> bytes:  # Any: as `later` says
        try:
            return encode(later.finish(future))
        except Exception as error:
            raise call_error(explain(error)) from error

    if operation.rpc != "ModelReady":
        return call

    def ready(payload: bytes, remaining: float | None, headers: Headers) -> bytes | Pending:
        """A model that nobody knows is not ready, which over gRPC is no error."""
        try:
            return call(payload, remaining, headers)
        except CallError as error:
            if error.status is not Status.NOT_FOUND:
                raise
            return encode({"ready": False})

    return ready


Wrap: TypeAlias = Callable[[bytes], bytes]
"""Makes what is sent of a ModelInferResponse."""


class _Asked(NamedTuple):
    """A request, and how it is to be answered."""

    model: Model
    version: str
    request: Request
    deliveries: Deliveries


def _infer(
    service: Service,
    payload: bytes,
    remaining: float | None,
    headers: Headers,
    wrap: Wrap | None = None,
) -> bytes | Pending:
    return _begun(service, _decoded(service, payload, remaining, headers), wrap)


def _decoded(service: Service, payload: bytes, remaining: float | None, headers: Headers) -> _Asked:
    try:
        check_fields(payload, service.limits)
    except RequestError as error:
        raise call_error(explain(error)) from error
    payload, tensors = without_tensors(payload)
    asked, model = parse(ModelInferRequest, payload), None
    try:
        extras = service.extras(headers)
        version = asked.model_version
        model = service.find(asked.model_name, version)
        request, deliveries = decode_request(
            model, asked, service.limits, service.now(), remaining, extras, tensors
        )
        if headers:
            request = service.with_headers(request, headers)
        return _Asked(model, version, request, deliveries)
    except Exception as error:
        if model is not None:
            service.count_refused(model, error)
        raise call_error(explain(error, asked.id), asked.id) from error


def _begun(service: Service, asked: _Asked, wrap: Wrap | None) -> bytes | Pending:
    _, version, request, deliveries = asked
    request_id = request.id
    try:
        model, outcome = service.begin(asked.model, request, version)
        if not isinstance(outcome, Future):
            return _encoded(model, request_id, outcome, deliveries, wrap)
    except Exception as error:
        raise call_error(explain(error, request_id), request_id) from error
    return Pending(outcome, partial(_finish, model, request_id, deliveries, wrap))


def _finish(
    model: Model,
    request_id: str,
    deliveries: Deliveries,
    wrap: Wrap | None,
    future: Future[Response],
) -> bytes:
    try:
        return _encoded(model, request_id, future.result().outputs, deliveries, wrap)
    except Exception as error:
        raise call_error(explain(error, request_id), request_id) from error


def _encoded(
    model: Model,
    request_id: str,
    outputs: Mapping[str, Item],
    deliveries: Deliveries,
    wrap: Wrap | None,
) -> bytes:
    response = encode_response(model, request_id, outputs, deliveries)
    return response if wrap is None else wrap(response)


def _stream_infer(
    service: Service, payload: bytes, remaining: float | None, headers: Headers
) -> bytes | Pending | Responses:
    """Begin an inference of a stream, whose errors are messages that carry the request's id."""
    try:
        asked = _decoded(service, payload, remaining, headers)
        if is_decoupled(asked.model):
            return _responses(service, asked)
        outcome = _begun(service, asked, _in_stream)
    except CallError as error:
        return _error_in_stream(error)
    if isinstance(outcome, bytes):
        return outcome
    begun = outcome

    def finish(future: Future[Response]) -> bytes:
        try:
            return begun.finish(future)
        except CallError as error:
            return _error_in_stream(error)

    return Pending(begun.future, finish)


def _responses(service: Service, asked: _Asked) -> Responses:
    """Return what a pipeline that is a stream will answer."""
    model, version, request, deliveries = asked
    try:
        deliveries.refuse_places()
    except Exception as error:
        service.count_refused(model, error)
        raise call_error(explain(error, request.id), request.id) from error

    def encode(answering: Model, outputs: Mapping[str, Item]) -> bytes:
        response = encode_response(answering, request.id, outputs, deliveries)
        return one_of_stream(response, final=False)

    def end(error: Exception | None) -> bytes | None:
        if error is not None:
            return _error_in_stream(call_error(explain(error, request.id), request.id))
        if not wants_empty_final(request.parameters):
            return None
        return _in_stream(encode_response(model, request.id, {}))

    def begin(notify: Callable[[], object]) -> Stream[bytes]:
        return service.open(model, request, encode, notify, version)

    return Responses(begin, end)


_in_stream = partial(one_of_stream, final=True)


def _error_in_stream(error: CallError) -> bytes:
    answer = ModelStreamInferResponse(error_message=error.message)
    answer.infer_response.id = error.request_id
    if error.told:
        answer.infer_response.parameters[FAULT].string_param = error.told
    return answer.SerializeToString()
