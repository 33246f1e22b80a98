"""Models that ask each other, and themselves, when all who could run them are at it."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from headrace.runtime.request import Request, Response
from tests.triton.test_run import PLACES, TENSORS, Follower

pytestmark = pytest.mark.slow

COUNTS_DOWN = """
import os
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.other = {"a": "b", "b": "a"}[args["model_name"]]

    def execute(self, requests):
        return [self.answer(one) for one in requests]

    def answer(self, request):
        given = request.inputs()[0].as_numpy()
        if request.request_id():
            place = Path(os.environ["PIPES"]) / request.request_id()
            place.with_suffix(".begun").write_text("")
            place.with_suffix(".go").read_text()
        if given[0, 0] < 1:
            return pb.InferenceResponse([pb.Tensor("Y", given + 10)])
        asked = [pb.Tensor("X", given - 1)]
        response = pb.InferenceRequest(
            model_name=self.other, requested_output_names=["Y"], inputs=asked
        ).exec()
        if response.has_error():
            return response
        return pb.InferenceResponse([pb.Tensor("Y", response.output_tensors()[0].as_numpy() + 1)])
"""


@pytest.fixture(params=PLACES, ids=["processes", "in process"])
def follower(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Follower]:
    for name in ("a", "b"):
        folder = tmp_path / "models" / name
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.py").write_text(COUNTS_DOWN)
        (folder / "config.pbtxt").write_text(
            f'backend: "python" {TENSORS} instance_group {{ kind: KIND_CPU count: 3 }}'
        )
    os.environ["PIPES"] = str(tmp_path)
    follower = Follower(tmp_path / "models", request.param)
    follower.renew()
    assert not follower.failures
    yield follower
    follower.repository.close()
    del os.environ["PIPES"]


def test_a_model_that_is_asked_by_what_it_asks_does_not_wait_for_itself(
    follower: Follower, tmp_path: Path
) -> None:
    """Both workers are at `a`, which asks `b`, which asks `a`, of which one process is free."""
    ids = ("first", "second")
    for id in ids:
        os.mkfifo(tmp_path / f"{id}.begun")
        os.mkfifo(tmp_path / f"{id}.go")
    nested, due = follower.repository.nested, time.monotonic() + 60
    x = np.array([[2, 0]], np.float32)
    answers: list[Future[Response]] = []
    for id in ids:  # each once that before it is under way, so that they are no batch
        answers.append(nested.submit(Request("a", {"X": x}, id, due), ""))
        (tmp_path / f"{id}.begun").read_text()
    for id in ids:
        (tmp_path / f"{id}.go").write_text("")
    for one in answers:
        found = one.result(30).outputs["Y"]
        assert np.array_equal(np.asarray(found), [[12, 10]])
