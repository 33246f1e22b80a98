"""Workers of a model that are warmed up."""

from collections import Counter
from pathlib import Path

import pytest

import headrace

NOTES = """
import os

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        (x,) = [one.inputs()[0].as_numpy() for one in requests]
        with open(PATH, "a") as file:
            file.write(f"{os.getpid()} {len(x)}\\n")
        return [pb.InferenceResponse([pb.Tensor("Y", x)])]
"""
CONFIG = """
name: "notes"
backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
"""
PROGRAM = """
model notes = triton_python "notes/1/model.py" (X: i32[1]) -> (Y: i32[1])

pipeline p(X: i32[1]) -> (Y: i32[1]) batch 8 { return Y = notes(X) }

schedule p { notes { batch { max = 8 }, instances = 3, warmup = [1, 4] } }
"""


@pytest.mark.slow
def test_each_worker_runs_each_number_of_rows_once_before_the_engine_is_ready(
    tmp_path: Path,
) -> None:
    folder, path = tmp_path / "notes", tmp_path / "runs"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(NOTES.replace("PATH", repr(str(path))))
    (folder / "config.pbtxt").write_text(CONFIG)
    (tmp_path / "p.pipe").write_text(PROGRAM)
    with headrace.load(tmp_path / "p.pipe", workers=1):
        runs = Counter(path.read_text().splitlines())
    assert len(runs) == 6
    assert set(runs.values()) == {1}
    assert Counter(run.split()[1] for run in runs) == {"1": 3, "4": 3}
