"""The protocol's protobuf messages, in a descriptor pool of their own.

`descriptors.binpb` is what protoc makes of the .proto files (a FileDescriptorSet):

    protoc -I. --include_imports --descriptor_set_out=descriptors.binpb \\
        inference.proto health.proto reflection.proto

It goes to a private pool because a process that also holds a stock client has a message
`inference.ModelInferRequest` in the default pool already, and a pool takes each name once. The
set is data, not code, so that any protobuf runtime since 5 reads it.
"""

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor, ServiceDescriptor

DESCRIPTORS = files(__spec__.parent).joinpath("descriptors.binpb").read_bytes()
_POOL = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS).file:
    _POOL.AddSerializedFile(_file.SerializeToString())


# Any: made at run time, pyright cannot know its fields
def message(name: str, package: str = "inference") -> Any:
    """Return the class of a message."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{package}.{name}"))


def message_of(descriptor: Descriptor) -> Any:  # Any: likewise
    """Return the class of a message that a method takes or gives."""
    return message_factory.GetMessageClass(descriptor)


def service_descriptor() -> ServiceDescriptor:
    """Return the service's descriptor: its methods with their message types."""
    return _POOL.FindServiceByName("inference.GRPCInferenceService")


def file_named(name: str) -> FileDescriptor:
    """Return a .proto file; raises KeyError."""
    return _POOL.FindFileByName(name)


def file_with(symbol: str) -> FileDescriptor:
    """Return the .proto file that says what a symbol is; raises KeyError."""
    return _POOL.FindFileContainingSymbol(symbol)


ModelConfig = message("ModelConfig")
ModelInferRequest = message("ModelInferRequest")
ModelInferResponse = message("ModelInferResponse")
ModelStreamInferResponse = message("ModelStreamInferResponse")
