"""Models that share the resources of a server (`--rate-limit execution_count`)."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headrace.runtime.request import Code, Fault, Request, Response
from headrace.triton.serving import Options
from headrace.triton.translate.schedule import Serving
from tests.runtime.drivers import LONG
from tests.triton.test_run import TENSORS, Follower
from tests.triton.writing import ensemble, put

pytestmark = pytest.mark.slow  # each model is a process

ALONE = """
import os
from pathlib import Path

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        place = os.path.join(os.environ["ALONE"], "held")
        os.close(os.open(place, os.O_CREAT | os.O_EXCL))  # fails where another is at it
        responses = [self.answer(one) for one in requests]
        os.unlink(place)
        return responses

    def answer(self, request):
        Path("/proc/self/status").read_text()
        return pb.InferenceResponse([pb.Tensor("Y", request.inputs()[0].as_numpy() + 1)])
"""
OFTEN = ALONE.replace(
    "responses = [self.answer(one) for one in requests]",
    """responses = None
        for one in requests:
            sender = one.get_response_sender()
            sender.send(self.answer(one))
            Path("/proc/self/status").read_text()
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)""",
)
ASKS = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(one) for one in requests]

    def answer(self, request):
        given = request.inputs()[0].as_numpy()
        asked = pb.InferenceRequest(
            model_name="MODEL", requested_output_names=["Y"], inputs=[pb.Tensor("X", given)]
        ).exec()
        if asked.has_error():
            return pb.InferenceResponse(error=asked.error())
        return pb.InferenceResponse([pb.Tensor("Y", asked.output_tensors()[0].as_numpy() + 1)])
"""
ONE = np.array([[1, 2]], np.float32)


def limited(folder: Path, name: str, source: str, resource: str, more: str = "") -> None:
    """Write a Python model of two instances, of which each takes one of a resource."""
    put(folder / name / "1/model.py", source)
    limiter = f'rate_limiter {{ resources {{ name: "{resource}" count: 1 }} }}'
    group = f"instance_group {{ kind: KIND_CPU count: 2 {limiter if resource else ''} }}"
    put(folder / name / "config.pbtxt", f'backend: "python" {TENSORS} {group} {more}')


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    models = tmp_path / "models"
    limited(models, "a", ALONE, "R")
    limited(models, "b", ALONE, "R")
    limited(models, "often", OFTEN, "R", "model_transaction_policy { decoupled: true }")
    ensemble(models, "both", ["X"], ["Y"], ["a: X=X > Y=half", "b: X=half > Y=Y"])
    limited(models, "asks", ASKS.replace("MODEL", "a"), "R")
    limited(models, "asks_apart", ASKS.replace("MODEL", "a"), "S")
    limited(models, "asks_both", ASKS.replace("MODEL", "both"), "R")
    os.environ["ALONE"] = str(tmp_path)
    made = Follower(models, Options(serving=Serving(resources=())))
    made.renew()
    assert not made.failures
    yield made
    made.repository.close()
    del os.environ["ALONE"]


def ask(name: str) -> Request:
    return Request(name, {"X": ONE})


def test_models_that_take_the_same_never_run_at_one_time(follower: Follower) -> None:
    """Themselves, in an ensemble, decoupled, and where another model asks for them."""
    names = ["a", "b", "both", "often", "asks_apart"]
    nested = follower.repository.nested
    answers = {name: [nested.submit(ask(name), "") for _ in range(12)] for name in names}
    rises = {"a": 1, "b": 1, "both": 2, "often": 1, "asks_apart": 2}
    for name, found in answers.items():
        for one in found:
            (value,) = one.result(LONG).outputs.values()
            np.testing.assert_array_equal(np.asarray(value).reshape(1, 2), ONE + rises[name])


@pytest.mark.parametrize("name", ["asks", "asks_both"])
def test_who_asks_for_what_it_holds_itself_is_told(follower: Follower, name: str) -> None:
    nested = follower.repository.nested
    with pytest.raises(Fault) as raised:
        nested.submit(ask(name), "").result(LONG)
    assert raised.value.code is Code.FAILED
    assert f"it takes `R`, held by `run_{name}`, which waits for it" in str(raised.value)
    assert isinstance(nested.submit(ask("a"), "").result(LONG), Response)
