"""`Watch` of the standard health service: told at once, and again when it changes."""

from typing import Any

import grpc
import pytest

from headrace.runtime.protocols.messages import message
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import Start

PACKAGE = "grpc.health.v1"
CARRIERS = pytest.mark.parametrize("carrier", [Carrier.NATIVE, Carrier.GRPCIO])


def watch(channel: grpc.Channel, name: str) -> Any:
    call: Any = channel.unary_stream(f"/{PACKAGE}.Health/Watch")
    request = message("HealthCheckRequest", PACKAGE)(service=name).SerializeToString()
    return call(request, timeout=20)


def status(payload: bytes) -> int:
    return message("HealthCheckResponse", PACKAGE).FromString(payload).status


@CARRIERS
def test_who_watches_is_told_when_the_server_stops_and_holds_up_nothing(
    start: Start, carrier: Carrier
) -> None:
    server = start(carrier, grace=15.0)
    response = message("HealthCheckResponse", PACKAGE)
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        told = watch(channel, "")
        assert status(next(told)) == response.SERVING
        assert server.stop()
        assert [status(one) for one in told] == [response.NOT_SERVING]


@CARRIERS
def test_a_service_that_nobody_knows_is_told_as_such(start: Start, carrier: Carrier) -> None:
    server = start(carrier)
    response = message("HealthCheckResponse", PACKAGE)
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        told = watch(channel, "nothing")
        assert status(next(told)) == response.SERVICE_UNKNOWN
        told.cancel()
        assert status(next(watch(channel, "inference.GRPCInferenceService"))) == response.SERVING
