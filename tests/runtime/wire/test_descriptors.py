"""The protocol's messages: made from the .proto files, equal to a stock client's, beside them."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from grpc_tools import protoc
from tritonclient.grpc import model_config_pb2 as stock_config
from tritonclient.grpc import service_pb2 as stock_service

from headrace.runtime.protocols.messages import DESCRIPTORS, message, service_descriptor

PROTOS = files("headrace.runtime.protocols")
STOCK: Any = stock_service  # Any: its messages are made at run time
THEIRS = {
    **stock_service.DESCRIPTOR.message_types_by_name,
    **stock_config.DESCRIPTOR.message_types_by_name,
}


def test_the_committed_descriptors_are_what_protoc_makes_of_the_files(tmp_path: Path) -> None:
    made = tmp_path / "made.binpb"
    folder = str(PROTOS)
    status = protoc.main(
        [
            "protoc",
            f"-I{folder}",
            "--include_imports",
            f"--descriptor_set_out={made}",
            f"{folder}/inference.proto",
            f"{folder}/health.proto",
            f"{folder}/reflection.proto",
        ]
    )
    assert status == 0
    kind = descriptor_pb2.FileDescriptorSet
    assert kind.FromString(made.read_bytes()) == kind.FromString(DESCRIPTORS)


def shape(descriptor: Descriptor) -> object:
    """Everything of a message that decides how its bytes are read."""
    return (
        descriptor.full_name,
        sorted(
            (
                field.number,
                field.name,
                field.type,
                field.is_repeated,
                field.message_type.full_name if field.message_type else None,
                field.containing_oneof.name if field.containing_oneof else None,
                [(value.name, value.number) for value in field.enum_type.values]
                if field.enum_type
                else None,
            )
            for field in descriptor.fields
        ),
        sorted((shape(nested) for nested in descriptor.nested_types), key=str),
    )


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_a_message_equals_the_stock_clients(name: str) -> None:
    assert shape(message(name).DESCRIPTOR) == shape(THEIRS[name])


def test_the_service_has_the_stock_clients_methods() -> None:
    theirs = STOCK.DESCRIPTOR.services_by_name["GRPCInferenceService"]

    def methods(service: ServiceDescriptor) -> list[tuple[str, str, str, bool, bool]]:
        return [
            (
                method.name,
                method.input_type.full_name,
                method.output_type.full_name,
                method.client_streaming,
                method.server_streaming,
            )
            for method in service.methods
        ]

    assert sorted(methods(service_descriptor())) == sorted(methods(theirs))


def test_bytes_of_one_are_read_by_the_other_in_one_process() -> None:
    ours = message("ModelInferRequest")(model_name="ocr", raw_input_contents=[b"\x00\x01"])
    ours.parameters["timeout"].int64_param = 5
    theirs = STOCK.ModelInferRequest.FromString(ours.SerializeToString())
    assert theirs.model_name == "ocr"
    assert theirs.parameters["timeout"].int64_param == 5
    assert message("ModelInferRequest").FromString(theirs.SerializeToString()) == ours
