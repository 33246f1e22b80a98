"""Server reflection, as a stock client of it asks."""

from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tritonclient.grpc import service_pb2

from headrace.runtime.access import Access, Token, policy_of
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.grpc.methods import SERVICE
from headrace.runtime.protocols.messages import message
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.plans import toy_plan

STOCK: Any = service_pb2  # Any: its messages are made at run time
PACKAGE = "grpc.reflection.v1"


def test_a_client_that_knows_nothing_learns_the_service(server: Server) -> None:
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        database: Any = ProtoReflectionDescriptorDatabase(channel)
        assert SERVICE in database.get_services()
        pool: Any = descriptor_pool.DescriptorPool(database)
        found = pool.FindServiceByName(SERVICE)
        theirs = STOCK.DESCRIPTOR.services_by_name["GRPCInferenceService"]
        assert {method.name for method in found.methods} == {one.name for one in theirs.methods}
        request = pool.FindMessageTypeByName("inference.ModelInferRequest")
        assert "raw_input_contents" in request.fields_by_name
        with pytest.raises(KeyError):
            pool.FindServiceByName("inference.Nothing")


def asked(server: Server, *requests: Any, metadata: Any = ()) -> list[Any]:
    """What version 1 answers to some requests on one stream."""
    response = message("ServerReflectionResponse", PACKAGE)
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        call: Any = channel.stream_stream(f"/{PACKAGE}.ServerReflection/ServerReflectionInfo")
        sent = iter([one.SerializeToString() for one in requests])
        answers = call(sent, metadata=metadata, timeout=10)
        return [response.FromString(answer) for answer in answers]


def test_a_file_comes_with_all_that_it_imports(server: Server) -> None:
    request = message("ServerReflectionRequest", PACKAGE)
    missing, found = asked(
        server,
        request(file_by_filename="../etc/passwd"),
        request(file_containing_symbol="inference.ModelConfig"),
    )
    assert missing.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    files = [
        descriptor_pb2.FileDescriptorProto.FromString(one).name
        for one in found.file_descriptor_response.file_descriptor_proto
    ]
    assert files == ["model_config.proto"]
    _, extension = asked(
        server,
        request(list_services=""),
        request(all_extension_numbers_of_type="inference.ModelConfig"),
    )
    assert not extension.all_extension_numbers_response.extension_number


def test_where_reading_takes_a_token_so_does_this() -> None:
    secret = "a-token-for-reading"
    policy = policy_of((), [Token("r", secret, frozenset({Access.READ}))])
    request = message("ServerReflectionRequest", PACKAGE)(list_services="")
    engine = Engine(toy_plan(), EngineConfig(workers=1))
    with serve([engine], free_ports(Carrier.AUTO, policy=policy)) as server:
        (refused,) = asked(server, request)
        (told,) = asked(server, request, metadata=[("authorization", f"Bearer {secret}")])
    engine.close()
    assert refused.error_response.error_code == grpc.StatusCode.UNAUTHENTICATED.value[0]
    assert told.list_services_response.service
