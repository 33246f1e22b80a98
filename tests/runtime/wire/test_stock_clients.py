"""Stock clients against a running server: HTTP, gRPC, and both with asyncio."""

import asyncio
import queue
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from headrace.runtime.server import Server
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.plans import NUMBERS, toy_model

Client = tuple[Any, Any]
"""A client module and an instance of its client."""


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Client]:
    module = tritonclient.http if request.param == "http" else tritonclient.grpc
    address = server.addresses.http if request.param == "http" else server.addresses.grpc
    with module.InferenceServerClient(address) as instance:
        yield module, instance


def tensor(module: Any, name: str, datatype: str, array: np.ndarray, **options: bool) -> Any:
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, **options)
    return made


def test_health_and_metadata_are_as_clients_read_them(client: Client) -> None:
    _, triton = client
    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready("rows")
    assert triton.is_model_ready("rows", "1")
    assert not triton.is_model_ready("rows", "2")
    assert not triton.is_model_ready("nothing")
    options = {"as_json": True} if client[0] is tritonclient.grpc else {}
    assert triton.get_server_metadata(**options)["name"] == "headrace"
    metadata = triton.get_model_metadata("rows", **options)
    shapes = [[int(size) for size in each["shape"]] for each in metadata["inputs"]]
    assert [each["datatype"] for each in metadata["inputs"]] == ["FP32", "BYTES"]
    assert shapes == [[-1, 3], [-1, 1]]
    config = triton.get_model_config("rows", **options)
    config = config.get("config", config)
    assert config["max_batch_size"] == 8
    assert [int(size) for size in config["input"][0]["dims"]] == [3]
    assert config["input"][1]["data_type"] == "TYPE_STRING"


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_b28_numbers_come_back_bit_by_bit(client: Client, dtype: str) -> None:
    module, triton = client
    datatype = toy_model(f"echo_{dtype}").inputs["x0"].datatype.name
    array = np.array([0, 1, 2, 100], triton_to_np_dtype(datatype))
    answer = triton.infer(f"echo_{dtype}", [tensor(module, "x0", datatype, array)])
    assert answer.as_numpy("y0").tobytes() == array.tobytes()


def test_b28_bytes_may_be_anything(client: Client) -> None:
    module, triton = client
    array = np.array([b"\xff\x00\xfe", b"", "höhe".encode(), b"a" * 10_000], object)
    answer = triton.infer("echo_bytes", [tensor(module, "x0", "BYTES", array)])
    assert answer.as_numpy("y0").tolist() == array.tolist()


@pytest.mark.parametrize("binary", [True, False])
def test_json_and_binary_tensors_give_the_same(server: Server, binary: bool) -> None:
    module: Any = tritonclient.http
    array, text = np.array([0.1, -2], np.float32), np.array(["grün"], object)
    with module.InferenceServerClient(server.addresses.http) as triton:
        answer = triton.infer(
            "two",
            [
                tensor(module, "x0", "FP32", array, binary_data=binary),
                tensor(module, "x1", "BYTES", text, binary_data=binary),
            ],
            outputs=[
                module.InferRequestedOutput("y0", binary_data=binary),
                module.InferRequestedOutput("y1", binary_data=binary),
            ],
            request_id="7",
        )
    assert np.array_equal(answer.as_numpy("y0"), array)
    assert [str(v, "utf-8") if isinstance(v, bytes) else v for v in answer.as_numpy("y1")] == [
        "grün"
    ]
    assert answer.get_response()["id"] == "7"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_b28_bodies_may_be_compressed_both_ways(server: Server, coding: str) -> None:
    array = np.arange(5000, dtype=np.float32)
    module: Any = tritonclient.http
    with module.InferenceServerClient(server.addresses.http) as triton:
        answer = triton.infer(
            "echo_f32",
            [tensor(module, "x0", "FP32", array)],
            request_compression_algorithm=coding,
            response_compression_algorithm=coding,
        )
    assert np.array_equal(answer.as_numpy("y0"), array)


def test_a_batch_pipeline_takes_and_gives_rows(client: Client) -> None:
    module, triton = client
    numbers = np.arange(15, dtype=np.float32).reshape(5, 3)
    words = np.array([[f"row {i}"] for i in range(5)], object)
    answer = triton.infer(
        "rows", [tensor(module, "x0", "FP32", numbers), tensor(module, "x1", "BYTES", words)]
    )
    assert np.array_equal(answer.as_numpy("y0"), numbers)
    assert answer.as_numpy("y1").shape == (5, 1)
    assert answer.as_numpy("y1")[4, 0] == b"row 4"


def test_b03_a_batch_above_the_limit_is_refused_with_both_numbers(client: Client) -> None:
    module, triton = client
    numbers = np.zeros((20, 3), np.float32)
    words = np.array([["a"]] * 20, object)
    inputs = [tensor(module, "x0", "FP32", numbers), tensor(module, "x1", "BYTES", words)]
    with pytest.raises(InferenceServerException, match=r"20 rows.*at most 8"):
        triton.infer("rows", inputs)


def test_b06_an_optional_input_may_be_left_out(client: Client) -> None:
    module, triton = client
    answer = triton.infer("optional", [tensor(module, "x0", "FP32", np.zeros(2, np.float32))])
    assert answer.as_numpy("y1").tolist() == [0.5]


def test_b01_no_boxes_are_arrays_of_the_right_dtype_and_rank(client: Client) -> None:
    module, triton = client
    answer = triton.infer("boxes", [tensor(module, "n", "INT64", np.array([0]))])
    assert answer.as_numpy("box").shape == (0, 4, 2)
    assert answer.as_numpy("box").dtype == np.float32
    assert answer.as_numpy("label").shape == (0,)
    answer = triton.infer("boxes", [tensor(module, "n", "INT64", np.array([2]))])
    assert answer.as_numpy("box")[1].tolist() == [[1, 1]] * 4
    assert answer.as_numpy("label").tolist() == [b"box 0", b"box 1"]


def test_items_of_different_shape_come_flat_with_their_shapes(client: Client) -> None:
    module, triton = client
    answer = triton.infer("squares", [tensor(module, "n", "INT64", np.array([3]))])
    assert answer.as_numpy("square").tolist() == [1, 2, 2, 2, 2]
    assert answer.as_numpy("square_shape").tolist() == [[0, 0], [1, 1], [2, 2]]


def test_b11_only_the_outputs_asked_for_come_back(client: Client) -> None:
    module, triton = client
    answer = triton.infer(
        "two",
        [
            tensor(module, "x0", "FP32", np.zeros(1, np.float32)),
            tensor(module, "x1", "BYTES", np.array(["a"], object)),
        ],
        outputs=[module.InferRequestedOutput("y1")],
    )
    assert answer.as_numpy("y1") is not None
    assert answer.as_numpy("y0") is None


@pytest.mark.parametrize(
    ("model", "name", "datatype", "array", "complaint"),
    [
        ("nothing", "x0", "FP32", np.zeros(1, np.float32), "Request for unknown model"),
        ("echo_f32", "zz", "FP32", np.zeros(1, np.float32), "the inputs are `x0`"),
        ("echo_f32", "x0", "INT32", np.zeros(1, np.int32), "wants FP32"),
        ("matrix", "x0", "FP32", np.zeros((2, 2), np.float32), "x0"),
        ("two", "x0", "FP32", np.zeros(1, np.float32), "`x1` is missing"),
        ("fail", "text", "BYTES", np.array(["marker"], object), "the marker is here"),
    ],
)
def test_an_error_says_what_is_wrong_and_the_next_request_works(
    client: Client, model: str, name: str, datatype: str, array: np.ndarray, complaint: str
) -> None:
    module, triton = client
    with pytest.raises(InferenceServerException, match=complaint):
        triton.infer(model, [tensor(module, name, datatype, array)])
    good = np.array([1, 2], np.float32)
    answer = triton.infer("echo_f32", [tensor(module, "x0", "FP32", good)])
    assert np.array_equal(answer.as_numpy("y0"), good)


def test_b12_an_unknown_output_is_an_error_with_the_valid_names(client: Client) -> None:
    module, triton = client
    with pytest.raises(InferenceServerException, match="no output 'zz'; the outputs are `y0`"):
        triton.infer(
            "echo_f32",
            [tensor(module, "x0", "FP32", np.zeros(1, np.float32))],
            outputs=[module.InferRequestedOutput("zz")],
        )


def test_b13_an_error_names_pipeline_stage_place_and_request(client: Client) -> None:
    module, triton = client
    marker = tensor(module, "text", "BYTES", np.array(["marker"], object))
    with pytest.raises(InferenceServerException) as error:
        triton.infer("fail", [marker], request_id="k-9")
    text = str(error.value)
    for part in ("k-9", "pipeline `fail`", "stage `fail`", "toy.pipe:", "the marker is here"):
        assert part in text


@pytest.mark.slow
def test_32_clients_at_once_get_each_their_own_answer(client: Client, server: Server) -> None:
    module, _ = client
    address = server.addresses.http if module is tritonclient.http else server.addresses.grpc

    def ask(number: int) -> None:
        with module.InferenceServerClient(address) as triton:
            for step in range(10):
                array = np.full(8, number * 1000 + step, np.float32)
                word = np.array([f"{number}/{step}"], object)
                answer = triton.infer(
                    "two",
                    [tensor(module, "x0", "FP32", array), tensor(module, "x1", "BYTES", word)],
                    request_id=f"{number}-{step}",
                )
                assert np.array_equal(answer.as_numpy("y0"), array)
                assert answer.as_numpy("y1")[0].decode() == word[0]

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(ask, range(32)))


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_asyncio_clients_get_each_their_own_answer(server: Server, kind: str) -> None:
    module: Any = tritonclient.http.aio if kind == "http" else tritonclient.grpc.aio
    address = server.addresses.http if kind == "http" else server.addresses.grpc

    async def main() -> None:
        async with module.InferenceServerClient(address) as triton:

            async def ask(number: int) -> None:
                array = np.full(4, number, np.float32)
                inputs = [tensor(module, "x0", "FP32", array)]
                answer = await triton.infer("echo_f32", inputs)
                assert np.array_equal(answer.as_numpy("y0"), array)

            asks: list[Awaitable[None]] = [ask(number) for number in range(32)]
            await asyncio.gather(*asks)

    asyncio.run(main())


def test_a_stream_answers_each_message_in_order_and_errors_do_not_end_it(server: Server) -> None:
    module: Any = tritonclient.grpc
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()

    def put(result: Any, error: Any) -> None:
        answers.put((result, error))

    with module.InferenceServerClient(server.addresses.grpc) as triton:
        triton.start_stream(put)
        for number in range(40):
            model = "nothing" if number == 3 else "echo_f32"
            array = np.array([number], np.float32)
            inputs = [tensor(module, "x0", "FP32", array)]
            triton.async_stream_infer(model, inputs, request_id=str(number))
        for number in range(40):
            result, error = answers.get(timeout=10)
            if number == 3:
                assert "Request for unknown model" in str(error)
                continue
            assert error is None
            assert result.get_response().id == str(number)
            assert result.as_numpy("y0").tolist() == [number]
            assert result.get_response().parameters["triton_final_response"].bool_param
        triton.stop_stream()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_b28_messages_may_be_compressed(server: Server, coding: str) -> None:
    """But for deflate on the native carrier, which says that it has none."""
    module: Any = tritonclient.grpc
    array = np.arange(5000, dtype=np.float32)
    with module.InferenceServerClient(server.addresses.grpc) as triton:
        inputs = [tensor(module, "x0", "FP32", array)]
        if coding == "deflate" and server.addresses.carrier is Carrier.NATIVE:
            with pytest.raises(InferenceServerException) as error:
                triton.infer("echo_f32", inputs, compression_algorithm=coding)
            assert error.value.status() == "StatusCode.UNIMPLEMENTED"
            return
        answer = triton.infer("echo_f32", inputs, compression_algorithm=coding)
    assert np.array_equal(answer.as_numpy("y0"), array)
