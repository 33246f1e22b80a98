"""The methods of `inference.GRPCInferenceService`."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

from ...stdlib.op import Item
from ..protocols.ext.decoupled import is_decoupled, one_of_stream, wants_empty_final
from ..protocols.ext.model_configuration import model_config
from ..protocols.messages import (
    ModelInferRequest,
    ModelStreamInferResponse,
    message,
    service_descriptor,
)
from ..protocols.metadata import as_message, model_metadata, server_metadata
from ..protocols.models import Model
from ..protocols.protobuf_codec import decode_request, encode_response
from ..request import Fault, Request, Response
from ..service import Service, explain
from ..streams import Stream
from .answering import answering, parse
from .call import CallError, Method, Methods, Pending, Responses, call_error
from .status import Status

SERVICE = "inference.GRPCInferenceService"


def inference_methods(service: Service, version: str) -> Methods:
    """Return every method of the service; those of extensions not served say so.

    `version` is the server's, for its metadata.
    """
    served = {
        "ServerLive": _answer("ServerLiveRequest", lambda _: _flag("ServerLive", "live", True)),
        "ServerReady": _answer(
            "ServerReadyRequest", lambda _: _flag("ServerReady", "ready", service.ready)
        ),
        "ModelReady": _answer(
            "ModelReadyRequest", lambda m: _flag("ModelReady", "ready", _model_ready(service, m))
        ),
        "ServerMetadata": _answer(
            "ServerMetadataRequest",
            lambda _: as_message("ServerMetadataResponse", server_metadata(version)),
        ),
        "ModelMetadata": _answer(
            "ModelMetadataRequest",
            lambda m: as_message(
                "ModelMetadataResponse",
                model_metadata(service.find(m.name, m.version), service.versions(m.name)),
            ),
        ),
        "ModelConfig": _answer(
            "ModelConfigRequest",
            lambda m: as_message(
                "ModelConfigResponse", {"config": model_config(service.find(m.name, m.version))}
            ),
        ),
        "ModelInfer": partial(_infer, service),
    }
    names = [method.name for method in service_descriptor().methods]
    unary = {_path(name): served.get(name, _unserved(name)) for name in names}
    stream = _path("ModelStreamInfer")
    del unary[stream]
    return Methods(unary, {stream: partial(_stream_infer, service)})


def _path(name: str) -> str:
    return f"/{SERVICE}/{name}"


def _flag(name: str, field: str, value: bool) -> Any:  # Any: a message
    return message(f"{name}Response")(**{field: value})


def _model_ready(service: Service, request: Any) -> bool:  # Any: a message
    try:
        return service.model_ready(request.name, request.version)
    except Fault:
        return False


def _answer(request: str, respond: Callable[[Any], Any]) -> Method:  # Any: messages
    return answering(message(request), respond)


def _unserved(name: str) -> Method:
    def method(_: bytes, __: float | None) -> bytes:
        raise CallError(Status.UNIMPLEMENTED, f"{name} is not served")

    return method


Wrap: TypeAlias = Callable[[Any], Any]  # Any: messages
"""Makes what is sent of a ModelInferResponse."""


def _infer(
    service: Service, payload: bytes, remaining: float | None, wrap: Wrap | None = None
) -> bytes | Pending:
    asked, model, request = _decoded(service, payload, remaining)
    return _begun(service, asked, model, request, wrap)


def _decoded(
    service: Service, payload: bytes, remaining: float | None
) -> tuple[Any, Model, Request]:  # Any: a message
    if len(payload) > service.limits.body:
        raise CallError(
            Status.RESOURCE_EXHAUSTED,
            f"the request has {len(payload)} bytes, the limit is {service.limits.body}",
        )
    asked = parse(ModelInferRequest, payload)
    try:
        model = service.find(asked.model_name, asked.model_version)
        return (
            asked,
            model,
            decode_request(model, asked, service.limits, service.now(), remaining),
        )
    except Exception as error:
        raise call_error(explain(error, asked.id), asked.id) from error


def _begun(
    service: Service,
    asked: Any,  # Any: a message
    model: Model,
    request: Request,
    wrap: Wrap | None,
) -> bytes | Pending:
    request_id = asked.id
    try:
        model, outcome = service.begin(model, request, asked.model_version)
        if not isinstance(outcome, Future):
            answer = encode_response(model, request_id, outcome)
            return (answer if wrap is None else wrap(answer)).SerializeToString()
    except Exception as error:
        raise call_error(explain(error, request_id), request_id) from error
    return Pending(outcome, partial(_finish, model, request_id, wrap))


def _finish(model: Model, request_id: str, wrap: Wrap | None, future: Future[Response]) -> bytes:
    try:
        answer = encode_response(model, request_id, future.result().outputs)
        return (answer if wrap is None else wrap(answer)).SerializeToString()
    except Exception as error:
        raise call_error(explain(error, request_id), request_id) from error


def _stream_infer(
    service: Service, payload: bytes, remaining: float | None
) -> bytes | Pending | Responses:
    """Begin an inference of a stream, whose errors are messages that carry the request's id."""
    try:
        asked, model, request = _decoded(service, payload, remaining)
        if is_decoupled(model):
            return _responses(service, model, request, asked.model_version)
        outcome = _begun(service, asked, model, request, _in_stream)
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


def _responses(service: Service, model: Model, request: Request, version: str) -> Responses:
    """Return what a pipeline that is a stream will answer."""

    def encode(answering: Model, outputs: Mapping[str, Item]) -> bytes:
        response = encode_response(answering, request.id, outputs)
        return one_of_stream(response, final=False).SerializeToString()

    def end(error: Exception | None) -> bytes | None:
        if error is not None:
            return _error_in_stream(call_error(explain(error, request.id), request.id))
        if not wants_empty_final(request.parameters):
            return None
        return _in_stream(encode_response(model, request.id, {})).SerializeToString()

    def begin(notify: Callable[[], object]) -> Stream[bytes]:
        return service.open(model, request, encode, notify, version)

    return Responses(begin, end)


_in_stream = partial(one_of_stream, final=True)


def _error_in_stream(error: CallError) -> bytes:
    answer = ModelStreamInferResponse(error_message=error.message)
    answer.infer_response.id = error.request_id
    return answer.SerializeToString()
