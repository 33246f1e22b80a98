"""Callers that are many, ask for too much, or leave a stream unread: the others are served."""

import struct
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import grpc
import numpy as np
import pytest

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.messages import message as message_of
from headrace.runtime.server import serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import free_ports
from tests.safety.hosted import GOOD, INFER, Hosted, exchange, hosting, post
from tests.safety.http2 import (
    END_HEADERS,
    GOAWAY,
    HEADERS,
    RST_STREAM,
    SETTINGS,
    Connection,
    call_head,
    frame,
)
from tests.safety.http2 import INFER as CALL

pytestmark = pytest.mark.slow
LIVE = "/inference.GRPCInferenceService/ServerLive"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
CALLERS = 200
STREAMS, METADATA = 3, 6
FLOOD = """
pipeline flooding(n: i64) -> stream (y: f32[N]) {
    loop (i: i64 = 0) max n {
        emit y = cast(range(100000), f32)
        next i = i + 1
    }
}
"""


@pytest.fixture(scope="module", params=["grpcio", "pygrpc-native"])
def carried(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosted]:
    with hosting(tmp_path_factory.mktemp("many"), "--grpc-carrier", request.param) as made:
        yield made


def alone(hosted: Hosted) -> grpc.Channel:
    """Open a channel with a connection of its own."""
    return grpc.insecure_channel(hosted.grpc, [("grpc.use_local_subchannel_pool", 1)])


def test_two_hundred_callers_at_once_are_all_answered(carried: Hosted) -> None:
    connections = [carried.connect() for _ in range(CALLERS)]
    channels = [alone(carried) for _ in range(CALLERS)]
    calls = [one.unary_unary(LIVE).future(b"", timeout=120) for one in channels]
    for connection in connections:
        connection.sendall(post(INFER, GOOD))
    assert [call.result() for call in calls] == [b"\x08\x01"] * CALLERS
    for connection in connections:
        with connection:
            assert exchange(connection, b"") == [200, 200]
    for channel in channels:
        channel.close()


def told_settings(connection: Connection) -> dict[int, int]:
    while (found := connection.read()).kind != SETTINGS or not found.payload:
        pass
    pairs = struct.iter_unpack(">HI", found.payload)
    return dict(pairs)


def test_streams_of_one_connection_are_as_many_as_it_was_told(carried: Hosted) -> None:
    """Those beyond are refused or end the connection; none is kept."""
    with Connection(carried.grpc) as connection:
        most = told_settings(connection)[STREAMS]
        assert most == 256
        for stream in range(1, 2 * most + 1, 2):
            connection.send(frame(HEADERS, END_HEADERS, stream, call_head(CALL)))
        beyond = 2 * most + 1
        connection.send(frame(HEADERS, END_HEADERS, beyond, call_head(CALL)))
        *_, last = connection.until_closed(beyond)
        assert last.kind == GOAWAY or (last.kind, last.stream) == (RST_STREAM, beyond)
    carried.serves()


def test_metadata_beyond_the_limit_ends_its_call_alone(carried: Hosted) -> None:
    with alone(carried) as channel:
        live = channel.unary_unary(LIVE)
        for _ in range(3):
            with pytest.raises(grpc.RpcError):
                live(b"", metadata=(("x-large", "a" * 20_000),), timeout=60)
            assert live(b"", timeout=60) == b"\x08\x01"


@pytest.mark.parametrize("carrier", [Carrier.GRPCIO, Carrier.NATIVE])
def test_a_stream_that_nobody_reads_waits_and_ends_with_its_caller(carrier: Carrier) -> None:
    request = message_of("ModelInferRequest")(model_name="flooding")
    request.inputs.add(name="n", datatype="INT64", shape=[1])
    request.raw_input_contents.append(np.array([1_000_000], np.int64).tobytes())
    one = message_of("ModelInferRequest")()
    one.CopyFrom(request)
    one.raw_input_contents[0] = np.array([1], np.int64).tobytes()
    engine = Engine(headrace.compile(FLOOD).plan, EngineConfig(workers=2))
    with closing(engine), serve([engine], free_ports(carrier)) as server:
        address, channels = str(server.addresses.grpc), list[grpc.Channel]()
        streams: list[Any] = []  # Any: calls
        for _ in range(4):  # twice as many as there are workers, none of which waits for a reader
            channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
            channels.append(channel)
            streams.append(channel.stream_stream(STREAM)(iter([request.SerializeToString()])))
            assert next(streams[-1])
        with grpc.insecure_channel(address) as channel:
            answers = channel.stream_stream(STREAM)(iter([one.SerializeToString()]), timeout=60)
            assert len(list(answers)) == 1
        for channel in channels:
            channel.close()
        assert engine.drain(60)
