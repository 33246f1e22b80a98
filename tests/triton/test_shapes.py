"""Shapes that are not a model's own: batch axes in ensembles, reshapes, what models give."""

import queue
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from tests.triton.comparing import ask
from tests.triton.test_run import following, given
from tests.triton.writing import put, text, unary

_STEP = (
    'step {{ model_name: "{}" model_version: -1 input_map {{ key: "x" value: "{}" }} '
    'output_map {{ key: "y" value: "{}" }} }}\n'
)


def write(folder: Path, dims: tuple[str, str], batch: int, *members: str) -> None:
    """Write an ensemble `e` that takes and gives `dims`, of members in a row: `batching`, `one` of
    an item and `rows` of many."""
    for name, sizes in (("batching", ("N", 2)), ("one", (2,)), ("rows", ("N", 2))):
        unary(folder / name / "1/model.onnx", "Neg", "x", "y", sizes)
        open_sizes = "-1, 2" if name == "rows" else "2"
        put(
            folder / name / "config.pbtxt",
            f"max_batch_size: {4 * (name == 'batching')}\n"
            f'input {{ name: "x" data_type: TYPE_FP32 dims: [ {open_sizes} ] }}\n'
            f'output {{ name: "y" data_type: TYPE_FP32 dims: [ {open_sizes} ] }}\n',
        )
    between = ["x", *(f"t{i}" for i in range(1, len(members))), "y"]
    steps = [_STEP.format(*one) for one in zip(members, between[:-1], between[1:], strict=True)]
    put(
        folder / "e/config.pbtxt",
        f'platform: "ensemble"\nmax_batch_size: {batch}\n'
        f'input {{ name: "x" data_type: TYPE_FP32 dims: [ {dims[0]} ] }}\n'
        f'output {{ name: "y" data_type: TYPE_FP32 dims: [ {dims[1]} ] }}\n'
        f"ensemble_scheduling {{\n{''.join(steps)}}}\n",
    )
    (folder / "e/1").mkdir()


ONE_ROW = """
    t1 = one(x)
    t2 = batching(t1)
    return y = rows(expand_dims(t2, axis = 0))
"""
ROWS = """
    batching_rows = for each_x in x {
        t1 = batching(each_x)
        yield t1 = t1
    }
    return y = rows(batching_rows.t1)
"""


@pytest.mark.parametrize(
    ("dims", "batch", "members", "body", "setting"),
    [
        (("2", "-1, 2"), 0, ("one", "batching", "rows"), ONE_ROW, ""),
        (("-1, 2", "-1, 2"), 0, ("batching", "rows"), ROWS, "batching { batch { max = 4 } }"),
        (("2", "2"), 4, ("batching", "rows"), ROWS, "batching { batch { max = 4 } }"),
    ],
)
def test_batch_axes_come_and_go_where_members_have_them_or_not(
    dims: tuple[str, str],
    batch: int,
    members: tuple[str, ...],
    body: str,
    setting: str,
    tmp_path: Path,
) -> None:
    write(tmp_path, dims, batch, *members)
    written = text(tmp_path, "e")
    assert body in written
    assert setting in written


def test_several_rows_are_not_taken_for_one(tmp_path: Path) -> None:
    write(tmp_path, ("2", "2"), 4, "batching", "one")
    with following(tmp_path) as (follower, http, _):
        assert not follower.failures
        status, answer = ask(f"http://{http}", "models/e/infer", asked([[1, 2]]))
        assert (status, answer["outputs"][0]["shape"]) == (200, [1, 2])
        assert answer["outputs"][0]["data"] == [1, 2]
        status, answer = ask(f"http://{http}", "models/e/infer", asked([[1, 2], [3, 4]]))
        assert status == 500
        assert "2 == 1" in answer["error"]


def asked(x: Any, **others: Any) -> dict[str, Any]:  # Any: numbers, JSON
    """Return a request with an input `x`, and others."""
    arrays = {name: np.asarray(one) for name, one in {"x": x, **others}.items()}
    return {
        "inputs": [
            {"name": name, "datatype": "FP32", "shape": one.shape, "data": one.ravel().tolist()}
            for name, one in arrays.items()
        ]
    }


SHAPES = """
import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(config)

    def execute(self, requests):
        answers = [self.answer(one) for one in requests]
        if not self.decoupled:
            return answers
        for request, answer in zip(requests, answers):
            request.get_response_sender().send(answer, flags=1)

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        by = pb_utils.get_input_tensor_by_name(request, "by")
        assert x.ndim == 1 and (by is None or by.as_numpy().shape == x.shape)
        y = x if by is None else x * by.as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", y)])
"""


@pytest.mark.slow  # two models that are processes
def test_a_python_model_is_given_reshaped_what_may_be_left_out(tmp_path: Path) -> None:
    for name, decoupled in (
        ("once", ""),
        ("often", "model_transaction_policy { decoupled: true }"),
    ):
        put(tmp_path / name / "1/model.py", SHAPES)
        put(
            tmp_path / name / "config.pbtxt",
            f"""
backend: "python"
max_batch_size: 4
a_field_of_a_newer_server: true
{decoupled}
input {{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] reshape {{ }} }}
input {{ name: "by" data_type: TYPE_FP32 dims: [ 1 ] reshape {{ }} optional: true }}
output {{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape {{ }} }}
""",
        )
    x, by = np.array([[3], [4]], np.float32), np.array([[5], [6]], np.float32)
    told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def tell(result: Any, error: Any) -> None:  # Any: tritonclient says no types
        told.put(error or result)

    with following(tmp_path) as (follower, _, grpc):
        assert not follower.failures
        client: Any = grpc_client.InferenceServerClient(grpc)
        client.start_stream(tell)
        for name in ("once", "often"):
            for inputs, y in (({"x": x}, x), ({"x": x, "by": by}, x * by)):
                tensors = [given(grpc_client, name, value) for name, value in inputs.items()]
                client.async_stream_infer(name, tensors)
                np.testing.assert_array_equal(told.get(timeout=20).as_numpy("y"), y)
        client.stop_stream()
        client.close()


FORMS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        found = [
            pb_utils.Tensor("boxes", np.array([], np.float32)),
            pb_utils.Tensor("count", np.array(0, np.int32)),
            pb_utils.Tensor("text", np.array([b"a", b"b", b"c"], object)),
        ]
        return [pb_utils.InferenceResponse(found) for _ in requests]
"""


@pytest.mark.slow  # a model that is a process
def test_what_a_python_model_gives_has_the_form_that_is_declared(tmp_path: Path) -> None:
    put(tmp_path / "m/1/model.py", FORMS)
    put(
        tmp_path / "m/config.pbtxt",
        """
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "boxes" data_type: TYPE_FP32 dims: [ -1, 4 ] }
output { name: "count" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "text" data_type: TYPE_STRING dims: [ 3, -1 ] }
""",
    )
    with following(tmp_path) as (follower, http, _):
        assert not follower.failures
        status, answer = ask(f"http://{http}", "models/m/infer", asked([1]))
        shapes = {one["name"]: one["shape"] for one in answer["outputs"]}
        assert (status, shapes) == (200, {"boxes": [0, 4], "count": [1], "text": [3, 1]})
