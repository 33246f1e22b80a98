"""Classification over both protocols: the highest values as texts, with their labels."""

from collections.abc import Iterator

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from headrace.dsl.types import DType
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.datatypes import DATATYPES
from headrace.runtime.protocols.ext.classification import classified
from headrace.runtime.protocols.results import WireTensor
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.plans import toy_plan
from tests.runtime.wire.stock import KINDS, Stock, stock

LABELS = {"echo_f32": {"y0": ("cat", "dog", "cow")}, "rows": {"y0": ("red", "green")}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    engine = Engine(toy_plan(), EngineConfig(workers=2))
    with serve([engine], free_ports(Carrier.AUTO, labels=LABELS)) as server:
        yield server
    engine.close()


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Stock]:
    with stock(request.param, server) as client:
        yield client


def texts(array: np.ndarray) -> list[str]:
    return [str(one, "utf-8") if isinstance(one, bytes) else one for one in array.ravel()]


@pytest.mark.parametrize("binary", [True, False])
def test_the_highest_come_first_with_their_labels(client: Stock, binary: bool) -> None:
    options = {"binary_data": binary} if client.is_http else {}
    values = np.array([0.5, 2.0, 1.0, -1.0], np.float32)
    answer = client.infer(
        "echo_f32",
        [client.tensor("x0", "FP32", values)],
        outputs=[client.wanted("y0", class_count=4, **options)],
    )
    found = answer.as_numpy("y0")
    assert found.shape == (4,)
    assert texts(found) == ["2.000000:1:dog", "1.000000:2:cow", "0.500000:0:cat", "-1.000000:3"]


def test_each_row_of_a_batch_has_its_own(client: Stock) -> None:
    numbers = np.array([[1, 2, 3], [6, 5, 4]], np.float32)
    words = np.array([["a"], ["b"]], object)
    inputs = [client.tensor("x0", "FP32", numbers), client.tensor("x1", "BYTES", words)]
    answer = client.infer("rows", inputs, outputs=[client.wanted("y0", class_count=2)])
    found = answer.as_numpy("y0")
    assert found.shape == (2, 2)
    assert texts(found) == ["3.000000:2", "2.000000:1:green", "6.000000:0:red", "5.000000:1:green"]


def test_texts_have_no_classes(client: Stock) -> None:
    words = np.array(["a"], object)
    with pytest.raises(InferenceServerException, match="`y0` is BYTES: it has no classes"):
        client.infer(
            "echo_bytes",
            [client.tensor("x0", "BYTES", words)],
            outputs=[client.wanted("y0", class_count=1)],
        )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1, 1, 2], np.int64), ["2:2", "1:0", "1:1"]),
        (np.array([3, 250], np.uint8), ["250:1", "3:0"]),
        (np.array([True, False]), ["1:0", "0:1"]),
        (np.array([], np.float32), []),
        (np.array([np.inf, -np.inf, 0.5], np.float32), ["inf:0", "0.500000:2", "-inf:1"]),
    ],
)
def test_of_equal_values_the_first_is_higher(values: np.ndarray, expected: list[str]) -> None:
    tensor = WireTensor("y", DATATYPES[DType.F32], values.shape, values)
    found = classified(tensor, 3, (), batched=False)
    assert found.shape == (min(3, values.size),)
    assert list(found.flat) == expected
