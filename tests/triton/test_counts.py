"""Statistics of ensembles, their members and caches, as a tritonserver counts them (2.51 does)."""

from pathlib import Path
from typing import Any

import pytest

from headrace.triton.serving import Options
from headrace.triton.translate.schedule import Serving
from tests.triton.comparing import ask
from tests.triton.test_run import following

pytestmark = pytest.mark.slow

TENSORS = (
    'input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }\n'
    'output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }\nmax_batch_size: 4\n'
)
SAME = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        given = [one.inputs()[0].as_numpy() for one in requests]
        return [pb.InferenceResponse([pb.Tensor("Y", one)]) for one in given]
"""
STEPS = """
platform: "ensemble"
ensemble_scheduling {
  step {
    model_name: "plain" model_version: -1
    input_map { key: "X" value: "X" } output_map { key: "Y" value: "half" }
  }
  step {
    model_name: "kept" model_version: -1
    input_map { key: "X" value: "half" } output_map { key: "Y" value: "Y" }
  }
}
"""


def write(folder: Path) -> None:
    kept = "response_cache { enable: true }"
    for name, more in (("plain", ""), ("kept", kept)):
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "1" / "model.py").write_text(SAME)
        (folder / name / "config.pbtxt").write_text(f'backend: "python"\n{TENSORS}{more}\n')
    (folder / "both" / "1").mkdir(parents=True)
    (folder / "both" / "config.pbtxt").write_text(TENSORS + STEPS)


def infer(address: str, model: str, *rows: float) -> None:
    shape, data = [len(rows), 2], [one for row in rows for one in (row, row)]
    given = {"name": "X", "datatype": "FP32", "shape": shape, "data": data}
    status, answer = ask(address, f"models/{model}/infer", {"inputs": [given]})
    assert (status, answer["outputs"][0]["data"]) == (200, data)


def counted(address: str, model: str) -> dict[str, Any]:  # Any: numbers, and numbers by size
    _, answer = ask(address, f"models/{model}/stats")
    (one,) = answer["model_stats"]
    stats = {name: kind["count"] for name, kind in one["inference_stats"].items()}
    sizes = {size["batch_size"]: size["compute_infer"]["count"] for size in one["batch_stats"]}
    names = ("success", "compute_infer", "cache_hit", "cache_miss")
    rows = (one["inference_count"], one["execution_count"])
    return {"rows": rows, **{name: stats[name] for name in names}, "sizes": sizes}


def test_members_and_kept_answers_are_counted(tmp_path: Path) -> None:
    write(tmp_path)
    options = Options(serving=Serving(cache=1 << 20))
    with following(tmp_path, options) as (follower, address, _):
        http = f"http://{address}"
        assert not follower.failures
        infer(http, "plain", 1.0)
        infer(http, "both", 2.0, 3.0)
        infer(http, "both", 2.0, 3.0)
        infer(http, "kept", 4.0)
        infer(http, "kept", 4.0)
        plain = {"success": 3, "compute_infer": 3, "cache_hit": 0, "cache_miss": 0}
        assert counted(http, "plain") == {"rows": (5, 3), **plain, "sizes": {1: 1, 2: 2}}
        kept = {"success": 4, "compute_infer": 2, "cache_hit": 2, "cache_miss": 2}
        assert counted(http, "kept") == {"rows": (3, 2), **kept, "sizes": {1: 1, 2: 1}}
        both = {"success": 2, "compute_infer": 2, "cache_hit": 0, "cache_miss": 0}
        assert counted(http, "both") == {"rows": (4, 2), **both, "sizes": {2: 2}}
