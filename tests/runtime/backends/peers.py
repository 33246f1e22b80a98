"""Servers of others, with small models: `double`, `told`, `broken`, and on Triton `repeat`,
which answers any number of times.

MLServer is in an environment of its own, see benchmarks/README.md; Triton is that of the tests of
exports.
"""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.export.tritonserver import PEERS, Address, free_port, tritonserver

TRITON = """
import json

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.name = json.loads(args["model_config"])["name"]

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb.get_input_tensor_by_name(request, "x").as_numpy()
        if self.name == "double":
            return pb.InferenceResponse([pb.Tensor("y", x * 2)])
        if self.name == "broken":
            return pb.InferenceResponse([], error=pb.TritonError("it is too dark"))
        if self.name == "told":
            left = np.array([[request.timeout()]], np.int64)
            return pb.InferenceResponse([pb.Tensor("left", left)])
        sender = request.get_response_sender()
        for n in range(int(x.ravel()[0])):
            sender.send(pb.InferenceResponse([pb.Tensor("n", np.array([n], np.int32))]))
        sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
"""
_DECOUPLED = "model_transaction_policy { decoupled: true }"
_TIMED = "dynamic_batching { default_queue_policy { allow_timeout_override: true } }"
CONFIGS = {
    "double": ("max_batch_size: 8", "x TYPE_FP32 -1", "y TYPE_FP32 -1"),
    "told": (f"max_batch_size: 8 {_TIMED}", "x TYPE_FP32 1", "left TYPE_INT64 1"),
    "broken": ("max_batch_size: 8", "x TYPE_FP32 1", "y TYPE_FP32 1"),
    "repeat": (f"max_batch_size: 0 {_DECOUPLED}", "x TYPE_INT32 1", "n TYPE_INT32 1"),
}

MLSERVER = """
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.types import InferenceResponse


class Small(MLModel):
    async def predict(self, payload):
        if self.name == "broken":
            raise InferenceError("it is too dark")
        x = NumpyCodec.decode_input(payload.inputs[0])
        y = NumpyCodec.encode_output("y", x * 2)
        return InferenceResponse(model_name=self.name, outputs=[y])
"""


@contextmanager
def triton(folder: Path) -> Generator[Address]:
    """Serve with a real tritonserver; skips where there is none."""
    repository = folder / "repository"
    for name, (settings, *tensors) in CONFIGS.items():
        version = repository / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(TRITON)
        kinds = zip(("input", "output"), tensors, strict=True)
        text = "".join(_tensor(kind, *tensor.split()) for kind, tensor in kinds)
        (repository / name / "config.pbtxt").write_text(f'backend: "python" {settings} {text}')
    with tritonserver(repository, folder) as address:
        yield address


def _tensor(kind: str, name: str, datatype: str, dims: str) -> str:
    return f'{kind} {{ name: "{name}" data_type: {datatype} dims: [{dims}] }}\n'


@contextmanager
def mlserver(folder: Path) -> Generator[Address]:
    """Serve with MLServer; skips where there is none."""
    program = PEERS / "mlserver" / "bin" / "mlserver"
    if not program.exists():
        pytest.skip(f"there is no {program}, see benchmarks/README.md")
    http, grpc = free_port(), free_port()
    settings = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "parallel_workers": 0}
    settings |= {"metrics_endpoint": None, "metrics_port": free_port(), "debug": False}
    settings |= {f"{name}_dir": str(folder / name) for name in ("environments", "metrics")}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "small.py").write_text(MLSERVER)
    for name in ("double", "broken"):
        (folder / name).mkdir()
        about = {"name": name, "implementation": "small.Small"}
        (folder / name / "model-settings.json").write_text(json.dumps(about))
    with (folder / "mlserver.log").open("w") as log:
        process = subprocess.Popen(
            [program, "start", folder],
            stdout=log,
            stderr=log,
            cwd=folder,
            env={"PYTHONPATH": str(folder), "PATH": str(program.parent)},
        )
    try:
        _wait_ready(process, http, folder / "mlserver.log")
        yield Address(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}")
    finally:
        process.terminate()
        process.wait(60)


def _wait_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(log.read_text()[-2000:])
