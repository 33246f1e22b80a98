"""Server reflection: the services and their messages, as grpcurl and its likes ask for them."""

from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor import FileDescriptor

from ..access import Access
from ..protocols.messages import file_named, file_with, message
from .answering import parse
from .call import Headers, Methods
from .status import Status

_PACKAGE = "grpc.reflection.v1"
_PACKAGES = (_PACKAGE, "grpc.reflection.v1alpha")  # the same bytes under both names
_METHOD = "ServerReflection/ServerReflectionInfo"

ACCESS = Access.READ
"""It tells what the published protocol tells, and nothing of what is served."""


def reflection_methods(services: Iterable[str]) -> Methods:
    """Return the method that tells of these services, in both versions of its protocol."""
    names = [*services, f"{_PACKAGE}.ServerReflection"]
    request = message("ServerReflectionRequest", _PACKAGE)

    def answer(payload: bytes, _: float | None, __: Headers) -> bytes:
        return _answer(parse(request, payload), names).SerializeToString()

    return Methods({}, {f"/{package}.{_METHOD}": answer for package in _PACKAGES})


def _answer(asked: Any, names: Iterable[str]) -> Any:  # Any: messages
    response = message("ServerReflectionResponse", _PACKAGE)(
        valid_host=asked.host, original_request=asked
    )
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
        response.error_response.error_code = Status.NOT_FOUND
        response.error_response.error_message = "there is no such symbol or file"
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
