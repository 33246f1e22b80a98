"""An engine that is closed while one of its models waits for the answer of another, which hangs."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from headrace.compiler import compile_source
from headrace.dsl.source import Source
from headrace.runtime.engine import Engine
from headrace.runtime.request import Fault, Request

ASKS = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            given = [pb.Tensor("X", one.as_numpy()[0]) for one in request.inputs()]
            pb.InferenceRequest(
                model_name="hangs", requested_output_names=["Y"], inputs=given
            ).exec()
            answers.append(pb.InferenceResponse(request.inputs()))
        return answers
"""
HANGS = """
class TritonPythonModel:
    def execute(self, requests):
        open("GATE").read()
"""
PIPE = """
model asker = triton_python "asks/1/model.py" (X: f32[2]) -> (Y: f32[2])
model hanger = triton_python "hangs/1/model.py" (X: f32[2]) -> (Y: f32[2])
pipeline asks(X: f32[2]) -> (Y: f32[2]) { return Y = asker(X) }
pipeline hangs(X: f32[2]) -> (Y: f32[2]) { return Y = hanger(X) }
"""


@pytest.mark.slow  # workers have seconds to end
def test_an_engine_closes_though_a_model_waits_for_one_that_hangs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    for name, program in (("asks", ASKS), ("hangs", HANGS.replace("GATE", str(gate)))):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1/model.py").write_text(program)
    engine = Engine(compile_source(Source("a.pipe", PIPE, tmp_path / "a.pipe")))
    failed: list[Fault] = []

    def ask() -> None:
        with pytest.raises(Fault) as caught:
            engine.call(Request("asks", {"X": np.zeros(2, np.float32)}))
        failed.append(caught.value)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    with gate.open("w"):  # which waits until the other model is there
        closing = threading.Thread(target=engine.close, daemon=True)
        closing.start()
        closing.join(60)
        assert not closing.is_alive()
        asking.join(60)
    assert len(failed) == 1
