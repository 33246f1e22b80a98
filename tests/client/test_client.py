"""Our own client against a running server, over both carriers."""

from collections.abc import Iterator

import numpy as np
import pytest

import headrace
from headrace.cli.main import main
from headrace.client import Client
from headrace.dsl.types import (
    ANY_DIM,
    DimArith,
    DimVar,
    DType,
    ListType,
    OptionalType,
    TensorType,
)
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.remote import Remote, remote_pipeline
from headrace.runtime.protocols.type_text import read_type
from headrace.runtime.request import Code, Fault, RequestError
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import free_ports

T = DimVar("T")
QUARTER = DimArith("/", DimVar("H"), 4)
ODD = DimArith("+", DimArith("*", 2, T), 1)
LEFT = DimArith("%", DimArith("*", 2, DimArith("-", T, 1)), 3)


@pytest.fixture(params=["grpc", "http"])
def client(request: pytest.FixtureRequest, one_server: Server) -> Iterator[Client]:
    address = one_server.addresses.grpc if request.param == "grpc" else one_server.addresses.http
    with Client(f"{request.param}://{address}", timeout=10) as client:
        yield client


def test_a_pipeline_is_called_as_one_that_is_loaded_here(client: Client) -> None:
    answer = client.two(x0=[1, 2.5], x1="grün")
    assert answer.y0.dtype == np.float32
    assert answer.y0.tolist() == [1, 2.5]
    assert answer.y1 == "grün"
    assert client["scalar_bytes"](x0=b"\xff").y0 == b"\xff"
    assert client["scalar_bf16"](x0=1.5).y0 == 1.5
    assert client["optional"](x0=[0.0]).y1 == 0.5


def test_the_only_pipeline_of_a_server_needs_no_name(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RequestError, match="has not one pipeline ready, but"):
        client(x=1.0)
    plan = headrace.compile("pipeline twice(x: f32) -> (y: f32) {\n    return y = x + x\n}\n").plan
    engine = Engine(plan, EngineConfig(workers=1))
    with serve([engine], free_ports(Carrier.AUTO)) as server:
        for address in (f"grpc://{server.addresses.grpc}", f"http://{server.addresses.http}"):
            with Client(address) as alone:
                assert alone(x=2.0).y == 4.0
            assert main(["infer", address, "x=1.5"]) == 0
            assert capsys.readouterr().out.split() == ["y", "3"]
    engine.close()


def test_rows_lists_and_items_of_different_shape_come_back(client: Client) -> None:
    rows = client.rows(x0=[[1, 2, 3], [4, 5, 6]], x1=["a", "b"])
    assert rows.y0.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert list(rows.y1) == ["a", "b"]
    assert client.words(x0=["a", ""]).y0 == ["a", ""]
    squares = client.squares(n=3).square
    assert [square.shape for square in squares] == [(0, 0), (1, 1), (2, 2)]
    ragged = client.ragged(x0=[np.zeros((2, 1), np.float32), np.ones((2, 3), np.float32)]).y0
    assert [item.shape for item in ragged] == [(2, 1), (2, 3)]
    lists = client.rows_of_lists(x0=[[[1.0, 2.0]], []]).y0
    assert [len(row) for row in lists] == [1, 0]
    assert client.boxes(n=0).box == []


def test_only_the_outputs_asked_for_come_back(client: Client) -> None:
    answer = client.two(x0=[1], x1="a", outputs=["y1"])
    assert tuple(answer) == ("a",)
    assert answer.y1 == "a"


def test_inputs_that_do_not_fit_are_told_with_the_signature(client: Client) -> None:
    with pytest.raises(RequestError, match=r"no input `zz`\n  two\(x0: f32"):
        client.two(zz=1)
    with pytest.raises(RequestError, match="`x0`"):
        client.two(x0="text", x1="a")
    with pytest.raises(Fault, match="`x1` is missing") as error:
        client.two(x0=[1])
    assert error.value.code is Code.INVALID


def test_errors_of_the_server_are_faults_with_its_code(client: Client) -> None:
    with pytest.raises(Fault, match="unknown model") as error:
        client.nothing(x=1)
    assert error.value.code is Code.NOT_FOUND
    with pytest.raises(Fault, match="the marker is here") as error:
        client.fail(text="marker")
    assert error.value.code is Code.FAILED


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_a_server_that_is_not_there_is_unavailable(scheme: str) -> None:
    with Client(f"{scheme}://127.0.0.1:1", timeout=5) as client, pytest.raises(Fault) as error:
        client.two(x0=[1], x1="a")
    assert error.value.code is Code.UNAVAILABLE


@pytest.mark.parametrize(
    "address",
    [
        "two",
        "ftp://x",
        "grpc://",
        "127.0.0.1:8000",
        "grpc://a user:1",
        "grpc://user:secret@h:1",
        "http://h:1?x=1",
        "http://h:1#x",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        Client(address)


@pytest.mark.parametrize("address", ["grpc://h", "grpc://h:0", "http://h:0"])
def test_an_address_without_a_port_is_told_which_there_are(address: str) -> None:
    with pytest.raises(ValueError, match="no port: headrace serves gRPC on 8001"):
        Client(address)


def test_a_name_that_nobody_knows_is_told_with_those_that_may_be_meant(client: Client) -> None:
    with pytest.raises(Fault, match=r"'twoo' is not found. Did you mean `two`\?$"):
        client.twoo(x0=[1])
    with pytest.raises(Fault, match="It serves boxes, echo_bf16,"):
        client.nothing_like_it(x=1)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("f32", TensorType(DType.F32)),
        ("u8[3, _]", TensorType(DType.U8, (3, ANY_DIM))),
        ("f32[H / 4, 2 * T + 1]", TensorType(DType.F32, (QUARTER, ODD))),
        ("f32[2 * (T - 1) % 3]", TensorType(DType.F32, (LEFT,))),
        ("list<f32[4, 2]>", ListType(TensorType(DType.F32, (4, 2)))),
        ("list<list<string, 3>, 10>", ListType(ListType(TensorType(DType.STRING), 3), 10)),
        ("i64?", OptionalType(TensorType(DType.I64))),
    ],
)
def test_types_are_read_from_their_text(text: str, type: object) -> None:
    assert read_type(text) == type
    assert str(read_type(text)) == text


@pytest.mark.parametrize("text", ["f32[", "f32[H +]", "f32[(H]", "f32[H H]", "f32[2 ^ H]", "x"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_type(text)


def test_a_server_that_tells_no_types_is_understood_by_its_datatypes() -> None:
    config = {
        "name": "other",
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["-1", "3"]}],
        "output": [{"name": "label", "data_type": "TYPE_STRING", "dims": [1]}],
    }
    model = Remote(remote_pipeline(config)).model
    assert str(model.inputs["x"].type) == "f32[_, 3]"
    assert str(model.outputs["label"].type) == "bytes"
