"""Tensors in system shared memory, as stock clients put them there and take them."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException, serialize_byte_tensor
from tritonclient.utils import shared_memory as stock_memory

from headrace.runtime.access import Access, Token, policy_of
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.regions import RegionsConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.plans import toy_plan
from tests.runtime.wire.stock import KINDS, Stock, stock

memory: Any = stock_memory  # Any: untyped


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    engine = Engine(toy_plan(), EngineConfig(workers=2))
    settings: dict[str, Any] = {
        "policy": policy_of([Access.MEMORY], ()),
        "regions": RegionsConfig(),
        "limits": Limits(shared=1 << 20),
    }
    with serve([engine], free_ports(Carrier.AUTO, **settings)) as server:
        yield server
    engine.close()


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Stock]:
    with stock(request.param, server) as client:
        yield client
        client.unregister_system_shared_memory()


class Shared:
    """Regions of a client, made and destroyed."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened

    def __call__(self, size: int) -> tuple[Any, str]:
        key = f"/test-{uuid4().hex}"
        handle = memory.create_shared_memory_region(key.strip("/"), key, size)
        self._opened.callback(memory.destroy_shared_memory_region, handle)
        return handle, key


@pytest.fixture
def shared() -> Iterator[Shared]:
    with ExitStack() as opened:
        yield Shared(opened)


def test_inputs_and_outputs_may_lie_in_one_region(client: Stock, shared: Shared) -> None:
    array = np.arange(16, dtype=np.float32)
    handle, key = shared(256)
    memory.set_shared_memory_region(handle, [array], offset=64)
    client.register_system_shared_memory("mine", key, 256)
    given = client.place("x0", [16], "FP32")
    given.set_shared_memory("mine", 64, offset=64)
    wanted = client.wanted("y0")
    wanted.set_shared_memory("mine", 64, offset=128)
    answer = client.infer("echo_f32", [given], outputs=[wanted])
    found = memory.get_contents_as_numpy(handle, np.float32, [16], offset=128)
    assert np.array_equal(found, array)
    output = answer.get_output("y0")
    if client.is_http:
        assert "parameters" not in output  # clients in C++ take any for binary data
        assert "data" not in output
    else:
        assert output.parameters["shared_memory_region"].string_param == "mine"
    status = client.get_system_shared_memory_status()
    regions = {one["name"]: one for one in status} if client.is_http else status["regions"]
    assert int(regions["mine"]["byte_size"]) == 256


def test_texts_may_lie_there_and_other_tensors_travel_beside_them(
    client: Stock, shared: Shared
) -> None:
    words = np.array(["grün"], object)
    handle, key = shared(64)
    memory.set_shared_memory_region(handle, [serialize_byte_tensor(words)])
    client.register_system_shared_memory("words", key, 64)
    given = client.place("x1", [1], "BYTES")
    given.set_shared_memory("words", 9)
    wanted = client.wanted("y1")
    wanted.set_shared_memory("words", 32, offset=32)
    numbers = np.array([1, 2], np.float32)
    answer = client.infer(
        "two",
        [client.tensor("x0", "FP32", numbers), given],
        outputs=[wanted, client.wanted("y0")],
    )
    assert np.array_equal(answer.as_numpy("y0"), numbers)
    found = memory.get_contents_as_numpy(handle, np.object_, [1], offset=32)
    assert found[0].decode() == "grün"


def test_b01_a_tensor_without_elements_may_lie_there(client: Stock, shared: Shared) -> None:
    _, key = shared(64)
    client.register_system_shared_memory("r", key, 64)
    given = client.place("x0", [0], "FP32")
    given.set_shared_memory("r", 0, offset=64)
    wanted = client.wanted("y0")
    wanted.set_shared_memory("r", 0)
    answer = client.infer("echo_f32", [given], outputs=[wanted])
    shape = answer.get_output("y0")["shape"] if client.is_http else answer.get_output("y0").shape
    assert list(shape) == [0]


@pytest.mark.parametrize(
    ("size", "offset", "complaint"),
    [
        (64, 1, "not within the 64 bytes"),
        (65, 0, "not within the 64 bytes"),
        (8, 2**63 - 8, "not within the 64 bytes"),
        (60, 0, "are 64 bytes"),
    ],
)
def test_b29_bytes_that_are_not_there_are_refused(
    client: Stock, shared: Shared, size: int, offset: int, complaint: str
) -> None:
    _, key = shared(64)
    client.register_system_shared_memory("r", key, 64)
    given = client.place("x0", [16], "FP32")
    given.set_shared_memory("r", size, offset=offset)
    with pytest.raises(InferenceServerException, match=complaint):
        client.infer("echo_f32", [given])
    assert client.is_server_live()


def test_an_output_that_has_no_room_is_an_error(client: Stock, shared: Shared) -> None:
    _, key = shared(64)
    client.register_system_shared_memory("r", key, 64)
    wanted = client.wanted("y0")
    wanted.set_shared_memory("r", 8)
    inputs = [client.tensor("x0", "FP32", np.zeros(4, np.float32))]
    with pytest.raises(InferenceServerException, match="16 bytes, and 8"):
        client.infer("echo_f32", inputs, outputs=[wanted])


def test_a_region_that_is_forgotten_is_there_no_more(client: Stock, shared: Shared) -> None:
    _, key = shared(64)
    client.register_system_shared_memory("r", key, 64)
    with pytest.raises(InferenceServerException, match="registered already"):
        client.register_system_shared_memory("r", key, 64)
    client.unregister_system_shared_memory("r")
    client.unregister_system_shared_memory("r")  # as clients do before they register
    given = client.place("x0", [16], "FP32")
    given.set_shared_memory("r", 64)
    with pytest.raises(InferenceServerException, match="there is no region 'r'"):
        client.infer("echo_f32", [given])


def test_b29_many_inputs_of_one_region_have_a_limit_together(
    server: Server, shared: Shared
) -> None:
    _, key = shared(1 << 20)
    with stock("grpc", server) as client:
        client.register_system_shared_memory("big", key, 1 << 20)
        inputs: list[Any] = []
        for _ in range(2):
            inputs.append(client.place("x0", [1 << 18], "FP32"))
            inputs[-1].set_shared_memory("big", 1 << 20)
        with pytest.raises(InferenceServerException, match=f"more than {1 << 20} bytes"):
            client.infer("echo_f32", inputs)
        client.unregister_system_shared_memory()


@pytest.mark.parametrize("carrier", [Carrier.NATIVE, Carrier.GRPCIO])
@pytest.mark.slow
def test_a_region_belongs_to_the_token_that_registered_it(shared: Shared, carrier: Carrier) -> None:
    secrets = ("the-token-of-number-one", "the-token-of-number-two")
    tokens = [Token(one[-3:], one, frozenset({Access.MEMORY})) for one in secrets]
    engine = Engine(toy_plan(), EngineConfig(workers=1))
    config = free_ports(carrier, policy=policy_of((), tokens), regions=RegionsConfig())
    one, two = ({"authorization": f"Bearer {secret}"} for secret in secrets)
    _, key = shared(64)
    with serve([engine], config) as server:
        for kind in KINDS:
            with stock(kind, server) as client:
                client.register_system_shared_memory("r", key, 64, headers=one)
                given = client.place("x0", [16], "FP32")
                given.set_shared_memory("r", 64)
                assert client.infer("echo_f32", [given], headers=one)
                with pytest.raises(InferenceServerException, match="there is no region 'r'"):
                    client.infer("echo_f32", [given], headers=two)
                with pytest.raises(InferenceServerException, match="is not served"):
                    client.infer("echo_f32", [given])
                client.unregister_system_shared_memory(headers=two)
                status = client.get_system_shared_memory_status(headers=two)
                assert status in ([], {})
                assert client.infer("echo_f32", [given], headers=one)
                client.unregister_system_shared_memory(headers=one)
    engine.close()
