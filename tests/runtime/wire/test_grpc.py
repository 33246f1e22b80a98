"""gRPC as bytes, on both carriers: statuses, deadlines, cancellation, streams, health."""

from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from headrace.runtime.grpc.methods import SERVICE
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.protocols.messages import message
from headrace.runtime.protocols.raw import write_raw
from headrace.runtime.server import Server
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import Gate, Start, eventually
from tests.runtime.wire.test_http import pending

CARRIERS = pytest.mark.parametrize("carrier", [Carrier.NATIVE, Carrier.GRPCIO])
CHANGING = (
    *(
        f"{kind}SharedMemory{what}"
        for kind in ("System", "Cuda")
        for what in ("Status", "Register")
    ),
    "RepositoryModelLoad",
    "RepositoryModelUnload",
    "LogSettings",
    "TraceSetting",
)
"""Calls that change the server, or tell of what callers have made there."""


@pytest.fixture
def channel(server: Server) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        yield channel


def method(channel: grpc.Channel, name: str, service: str = SERVICE) -> Any:
    """A call that takes and gives bytes."""
    return channel.unary_unary(f"/{service}/{name}")


def infer_request(model: str, name: str, datatype: str, shape: list[int], raw: bytes) -> bytes:
    asked = message("ModelInferRequest")(model_name=model)
    asked.inputs.add(name=name, datatype=datatype, shape=shape)
    asked.raw_input_contents.append(raw)
    return asked.SerializeToString()


GOOD = infer_request("echo_f32", "x0", "FP32", [1], np.float32(1).tobytes())


def wait_request(gate: Gate) -> bytes:
    return infer_request("wait", "path", "BYTES", [1], write_raw([str(gate.path)]))


def status_of(call: Any, *arguments: Any, **options: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as error:
        call(*arguments, **options)
    return error.value.code()


@pytest.mark.parametrize("name", CHANGING)
def test_what_changes_the_server_is_nobodys_unless_allowed(
    channel: grpc.Channel, name: str
) -> None:
    with pytest.raises(grpc.RpcError, match="is not allowed on this server") as error:
        method(channel, name)(b"")
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_an_unknown_call_is_unimplemented(channel: grpc.Channel) -> None:
    assert status_of(method(channel, "Nothing"), b"") is grpc.StatusCode.UNIMPLEMENTED
    assert status_of(method(channel, "Say", "a.B"), b"") is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (b"\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
        (b"", grpc.StatusCode.NOT_FOUND),
        (infer_request("nothing", "x0", "FP32", [1], bytes(4)), grpc.StatusCode.NOT_FOUND),
        (infer_request("../x\n", "x0", "FP32", [1], bytes(4)), grpc.StatusCode.NOT_FOUND),
        (infer_request("echo_f32", "x0", "FP32", [-1], bytes(4)), grpc.StatusCode.INVALID_ARGUMENT),
        (
            infer_request("echo_f32", "x0", "FP32", [2**62, 2], b""),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            infer_request("echo_f32", "x0", "FP32", [16], bytes(32)),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (infer_request("echo_f32", "zz", "FP32", [1], bytes(4)), grpc.StatusCode.INVALID_ARGUMENT),
        (
            infer_request("fail", "text", "BYTES", [1], write_raw(["marker"])),
            grpc.StatusCode.INTERNAL,
        ),
    ],
)
def test_a_bad_request_has_its_status_and_the_next_one_works(
    channel: grpc.Channel, payload: bytes, status: grpc.StatusCode
) -> None:
    infer = method(channel, "ModelInfer")
    assert status_of(infer, payload) is status
    answer = message("ModelInferResponse").FromString(infer(GOOD))
    assert answer.raw_output_contents[0] == np.float32(1).tobytes()


@pytest.mark.slow
@CARRIERS
def test_a_message_over_the_limit_is_refused(start: Start, carrier: Carrier) -> None:
    server = start(carrier, limits=Limits(body=1000))
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        infer = method(channel, "ModelInfer")
        big = infer_request("echo_f32", "x0", "FP32", [1000], bytes(4000))
        assert status_of(infer, big) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert infer(GOOD)


def test_health_is_told_by_the_standard_service(channel: grpc.Channel) -> None:
    check = method(channel, "Check", "grpc.health.v1.Health")
    request = message("HealthCheckRequest", "grpc.health.v1")
    response = message("HealthCheckResponse", "grpc.health.v1")
    for service in ("", SERVICE):
        answer = check(request(service=service).SerializeToString())
        assert response.FromString(answer).status == response.SERVING
    unknown = request(service="nothing").SerializeToString()
    assert status_of(check, unknown) is grpc.StatusCode.NOT_FOUND


@CARRIERS
def test_b23_a_call_whose_time_is_up_while_it_is_queued_never_runs(
    start: Start, carrier: Carrier, gates: tuple[Gate, Gate]
) -> None:
    server = start(carrier)
    first, second = gates
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        infer = method(channel, "ModelInfer")
        running = infer.future(wait_request(first))
        first.entered()
        late = status_of(infer, wait_request(second), timeout=0.05)
        assert late is grpc.StatusCode.DEADLINE_EXCEEDED
        eventually(lambda: pending(server) == 0)
        first.open()
        assert running.result(timeout=10)
        assert second.was_never_entered()


@CARRIERS
def test_b23_a_cancelled_call_is_dropped_from_the_queue(
    start: Start, carrier: Carrier, gates: tuple[Gate, Gate]
) -> None:
    server = start(carrier)
    first, second = gates
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        infer = method(channel, "ModelInfer")
        running = infer.future(wait_request(first))
        first.entered()
        queued = infer.future(wait_request(second))
        eventually(lambda: pending(server) == 1)
        queued.cancel()
        eventually(lambda: pending(server) == 0)
        first.open()
        assert running.result(timeout=10)
        assert infer(GOOD)
        assert second.was_never_entered()


@CARRIERS
def test_answers_come_as_they_are_ready_not_as_they_were_asked(
    start: Start, carrier: Carrier, gates: tuple[Gate, Gate]
) -> None:
    gate, _ = gates
    server = start(carrier, workers=2)
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        infer = method(channel, "ModelInfer")
        slow = infer.future(wait_request(gate))
        gate.entered()
        assert infer(GOOD, timeout=10)
        gate.open(b"slow")
        answer = message("ModelInferResponse").FromString(slow.result(timeout=10))
        assert answer.raw_output_contents[0] == write_raw([b"slow"])


@CARRIERS
def test_a_stream_that_is_cancelled_takes_its_requests_along(
    start: Start, carrier: Carrier, gates: tuple[Gate, Gate]
) -> None:
    server = start(carrier)
    first, second = gates
    with grpc.insecure_channel(str(server.addresses.grpc)) as channel:
        running = method(channel, "ModelInfer").future(wait_request(first))
        first.entered()
        stream = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        answers = stream(iter([wait_request(second)]))
        eventually(lambda: pending(server) == 1)
        answers.cancel()
        eventually(lambda: pending(server) == 0)
        first.open()
        assert running.result(timeout=10)
        assert second.was_never_entered()


def test_garbage_in_a_stream_is_answered_and_the_stream_goes_on(channel: grpc.Channel) -> None:
    stream = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
    kind = message("ModelStreamInferResponse")
    answers = [kind.FromString(answer) for answer in stream(iter([b"\xff", GOOD]), timeout=10)]
    assert "no ModelInferRequest" in answers[0].error_message
    assert answers[1].infer_response.raw_output_contents[0] == np.float32(1).tobytes()
