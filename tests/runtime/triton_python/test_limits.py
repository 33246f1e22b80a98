"""What a schedule says of the processes of a model: how much memory, and how long a run."""

import os
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.runtime.request import Code, Fault
from tests.triton.writing import put

PROGRAM = """
model m = triton_python "m/1/model.py" (X: i64[1]) -> (Y: i64[1])

pipeline p(X: i64[1]) -> (Y: i64[1]) batch 8 { return Y = m(X) }

schedule p { m { isolate { memory = 512MiB, timeout = 2s } } }
"""
MODEL = """
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        (x,) = [one.inputs()[0].as_numpy() for one in requests]
        if x.item() < 0:
            open("GATE").read()
        return [pb.InferenceResponse([pb.Tensor("Y", x + len(np.ones(x.item(), np.uint8)))])]
"""


@pytest.mark.slow
def test_a_process_has_so_much_memory_and_a_run_so_much_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    put(tmp_path / "m/1/model.py", MODEL.replace("GATE", str(tmp_path / "gate")))
    put(tmp_path / "p.pipe", PROGRAM)
    with headrace.load(tmp_path / "p.pipe", workers=1) as app:

        def asked(number: int) -> int:
            return int(np.asarray(app.p(X=np.array([[number]])).Y).item())

        assert asked(1) == 2
        for number, code, why in (
            (1 << 30, Code.FAILED, "MemoryError"),
            (-1, Code.DEADLINE, "2 s"),
        ):
            with pytest.raises(Fault, match=why) as caught:
                asked(number)
            assert caught.value.code is code
            assert asked(1) == 2
