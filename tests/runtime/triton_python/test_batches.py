"""Which requests a model's `execute` is given together."""

import os
from pathlib import Path

import numpy as np
import pytest

from headrace.runtime.request import Request
from headrace.triton.serving import Options
from tests.triton.test_run import Follower

pytestmark = pytest.mark.slow

TELLS = """
import os
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        if requests[0].request_id() == "first":
            Path(os.environ["PIPES"], "begun").write_text("")
            Path(os.environ["PIPES"], "go").read_text()
        return [self.answer(one, len(requests)) for one in requests]

    def answer(self, request, together):
        rows = request.inputs()[0].as_numpy().shape[0]
        return pb.InferenceResponse([pb.Tensor("Y", np.full((rows, 1), together, np.int32))])
"""
CONFIG = """
backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
instance_group { kind: KIND_CPU count: 1 }
"""


def test_a_request_is_given_alone_where_no_dynamic_batching_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models" / "tells"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(TELLS)
    (folder / "config.pbtxt").write_text(CONFIG)
    for name in ("begun", "go"):
        os.mkfifo(tmp_path / name)
    monkeypatch.setenv("PIPES", str(tmp_path))
    follower = Follower(tmp_path / "models", Options())
    follower.renew()
    assert not follower.failures
    nested = follower.repository.nested
    answers = [nested.submit(Request("tells", {"X": np.zeros((1, 1), np.int32)}, "first"), "")]
    (tmp_path / "begun").read_text()
    for rows in (1, 1, 2, 2):  # these wait together
        x = np.zeros((rows, 1), np.int32)
        answers.append(nested.submit(Request("tells", {"X": x}), ""))
    (tmp_path / "go").write_text("")
    found = [np.asarray(one.result(60).outputs["Y"]).ravel().tolist() for one in answers]
    follower.repository.close()
    assert found == [[1], [1], [1], [1, 1], [1, 1]]
