"""Server reflection: the services and their messages, as grpcurl and its likes ask for them."""

from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor import FileDescriptor

from ..access import Access, Policy
from ..protocols.messages import file_named, file_with, message
from ..request import Fault
from .call import Headers, Methods
from .parsing import parse
from .status import STATUS, Status

_PACKAGE = "grpc.reflection.v1"
_PACKAGES = (_PACKAGE, "grpc.reflection.v1alpha")  # the same bytes under both names
_METHOD = "ServerReflection/ServerReflectionInfo"


def reflection_methods(services: Iterable[str], policy: Policy) -> Methods:
    """Return the method that tells of these services, in both versions of its protocol.

    It is for those who may read.
    """
    names = [*services, f"{_PACKAGE}.ServerReflection"]
    request = message("ServerReflectionRequest", _PACKAGE)

    def answer(payload: bytes, _: float | None, headers: Headers) -> bytes:
        asked = parse(request, payload)
        try:
            policy.require(Access.READ, headers.get("authorization"))
        except Fault as fault:
            return _failed(asked, STATUS[fault.code], fault.message).SerializeToString()
        return _answer(asked, names).SerializeToString()

    return Methods({}, {f"/{package}.{_METHOD}": answer for package in _PACKAGES})


def _response(asked: Any) -> Any:  # Any: messages
    kind = message("ServerReflectionResponse", _PACKAGE)
    return kind(valid_host=asked.host, original_request=asked)


def _failed(asked: Any, status: Status, why: str) -> Any:  # Any: messages
    response = _response(asked)
    response.error_response.error_code, response.error_response.error_message = status, why
    return response


def _answer(asked: Any, names: Iterable[str]) -> Any:  # Any: messages
    response = _response(asked)
    try:
        match asked.WhichOneof("message_request"):
            case "list_services":
                for name in names:
                    response.list_services_response.service.add(name=name)
            case "file_by_filename":
                _tell(response, file_named(asked.file_by_filename))
            case "file_containing_symbol":
                _tell(response, file_with(asked.file_containing_symbol))
            case "all_extension_numbers_of_type":
                name = asked.all_extension_numbers_of_type
                file_with(name)
                response.all_extension_numbers_response.base_type_name = name
            case _:  # proto3 has no extensions
                raise KeyError
    except KeyError:
        return _failed(asked, Status.NOT_FOUND, "there is no such symbol or file")
    return response


def _tell(response: Any, file: FileDescriptor) -> None:  # Any: a message
    """Put a file and all that it imports into a response."""
    told = response.file_descriptor_response.file_descriptor_proto
    waiting, seen = [file], set[str]()
    while waiting:
        one = waiting.pop()
        if one.name not in seen:
            seen.add(one.name)
            told.append(one.serialized_pb)
            waiting += one.dependencies
