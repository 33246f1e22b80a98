"""What a GPU is to be asked: rehearsed on the simulated device, left out where there is none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.devices.test_gpu import gpus

JOB = Path(__file__).parents[3] / "benchmarks" / "gpu_job.py"


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(JOB), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(gpus() > 0, reason="there is a GPU")
def test_it_says_so_where_there_is_no_gpu() -> None:
    assert run().startswith("skipped: the plan asks for gpu:0, ")


@pytest.mark.slow
def test_what_needs_no_cuda_runs_on_the_simulated_device(tmp_path: Path) -> None:
    run("--device", "sim", "--side", "8", "--rounds", "2", "--out", str(tmp_path))
    found = json.loads((tmp_path / "gpu_job.json").read_text())
    assert found["residency"]["unfused"]["ledger"] == [1, 1, 0]
    assert found["through_host"]["outcome"]["subject"] == "three models"
    assert found["memory"]["live_bytes"] == 0
    skipped = {name for name, one in found.items() if str(one).startswith("skipped")}
    assert skipped == {"graphs", "shared_memory", "suite"}
