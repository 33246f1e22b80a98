"""The examples that come with tritonclient, run as they are against the models of this folder.

They are in `src/python/examples` of github.com/triton-inference-server/client, are in no package
and are not kept here. With that folder at hand (and what they import beside tritonclient: pillow,
and for image_client over HTTP attrdict3):

    HEADRACE_TRITON_EXAMPLES=client/src/python/examples pytest -m slow tests/stock
    python -m tests.stock.examples client/src/python/examples

The last kept report is benchmarks/results/stock_examples.txt.
"""

import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np

import headrace
from headrace.runtime.access import Access, policy_of
from headrace.runtime.engine import EngineConfig
from headrace.runtime.regions import RegionsConfig
from headrace.runtime.repository.repository import Repository
from headrace.runtime.repository.version import Candidate
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import ServerConfig

MODELS = Path(__file__).parent / "models"
ALL = tuple(sorted(path.stem for path in MODELS.glob("*.pipe")))
CLASSES = tuple(f"class {number}" for number in range(1001))
LABELS = {
    "densenet_onnx": {"fc6_1": CLASSES[:1000]},
    "inception_onnx": {"scores": CLASSES},
    "preprocess_inception_ensemble": {"OUTPUT": CLASSES},
}
# Examples of control count what there is.
SEVEN = (
    "custom_identity_int32",
    "simple",
    "simple_dyna_sequence",
    "simple_identity",
    "simple_int8",
    "simple_sequence",
    "simple_string",
)
EIGHT = (*SEVEN, "simple_string_dyna_sequence")


@dataclass(frozen=True, slots=True)
class Example:
    """A script with its words; `{http}`, `{grpc}` and `{pictures}` stand for where these are. It
    exits with 0 where all is as it should be, unless it `says` why it stops."""

    script: str
    words: str
    models: tuple[str, ...] = ALL
    says: str = ""

    def __str__(self) -> str:
        return f"{self.script} {self.words}"


_GRPC, _HTTP = "-u {grpc}", "-u {http}"
EXAMPLES = (
    Example("grpc_client.py", _GRPC),
    Example("grpc_explicit_byte_content_client.py", _GRPC),
    Example("grpc_explicit_int8_content_client.py", _GRPC),
    Example("grpc_explicit_int_content_client.py", _GRPC),
    Example("grpc_image_client.py", "-u {grpc} -m inception_onnx -s VGG -b 3 -c 2 {pictures}"),
    Example("grpc_image_client.py", "-u {grpc} -m inception_onnx -a -c 2 {pictures}"),
    Example("grpc_image_client.py", "-u {grpc} -m inception_onnx --streaming {pictures}"),
    Example("image_client.py", "-u {http} -m densenet_onnx -s INCEPTION -c 3 {pictures}"),
    Example("image_client.py", "-u {http} -m inception_onnx -b 4 -a -c 2 {pictures}"),
    Example("image_client.py", "-u {grpc} -i grpc -m densenet_onnx -s INCEPTION {pictures}"),
    Example("image_client.py", "-u {grpc} -i grpc -m inception_onnx -b 3 -a {pictures}"),
    Example("image_client.py", "-u {grpc} -i grpc --streaming -m inception_onnx -c 2 {pictures}"),
    Example("ensemble_image_client.py", "-u {http} -c 2 {pictures}"),
    Example("ensemble_image_client.py", "-u {grpc} -i grpc -c 2 {pictures}"),
    Example("reuse_infer_objects_client.py", _HTTP),
    Example("reuse_infer_objects_client.py", "-u {grpc} -i grpc"),
    Example("simple_grpc_aio_infer_client.py", _GRPC),
    Example("simple_grpc_aio_sequence_stream_infer_client.py", _GRPC),
    Example("simple_grpc_aio_sequence_stream_infer_client.py", "-u {grpc} -d"),
    Example("simple_grpc_async_infer_client.py", _GRPC),
    Example("simple_grpc_custom_args_client.py", _GRPC),
    Example("simple_grpc_custom_repeat.py", _GRPC),
    Example("simple_grpc_health_metadata.py", _GRPC),
    Example("simple_grpc_infer_client.py", _GRPC),
    Example("simple_grpc_infer_client.py", "-u {grpc} -C gzip"),
    Example("simple_grpc_infer_client.py", "-u {grpc} -C deflate"),
    Example("simple_grpc_keepalive_client.py", "-u {grpc} --grpc-keepalive-time 10000"),
    Example(
        "simple_grpc_model_control.py",
        _GRPC,
        EIGHT,
        says="expected status 'StatusCode.INTERNAL' for oversized file parameter",
    ),
    Example("simple_grpc_sequence_stream_infer_client.py", _GRPC),
    Example("simple_grpc_sequence_stream_infer_client.py", "-u {grpc} -d"),  # -o 1 names two alike
    Example("simple_grpc_sequence_sync_infer_client.py", _GRPC),
    Example("simple_grpc_sequence_sync_infer_client.py", "-u {grpc} -d -o 1"),
    Example("simple_grpc_shm_client.py", _GRPC),
    Example("simple_grpc_shm_string_client.py", _GRPC),
    Example("simple_grpc_string_infer_client.py", _GRPC),
    Example("simple_http_aio_infer_client.py", _HTTP),
    Example(
        "simple_http_aio_infer_client.py",
        "-u {http} --request-compression-algorithm gzip --response-compression-algorithm gzip",
    ),
    Example("simple_http_async_infer_client.py", _HTTP),
    Example("simple_http_health_metadata.py", _HTTP),
    Example("simple_http_infer_client.py", "-u {http} -H test:1"),
    Example(
        "simple_http_infer_client.py",
        "-u {http} --request-compression-algorithm deflate "
        "--response-compression-algorithm deflate",
    ),
    Example("simple_http_model_control.py", _HTTP, SEVEN),
    Example("simple_http_sequence_sync_infer_client.py", _HTTP),
    Example("simple_http_sequence_sync_infer_client.py", "-u {http} -d -o 1"),
    Example("simple_http_shm_client.py", _HTTP),
    Example("simple_http_shm_string_client.py", _HTTP),
    Example("simple_http_string_infer_client.py", _HTTP),
)
NOT_RUN: Mapping[str, str] = {
    "memory_growth_test.py": "asks on ports 8000 and 8001 and takes no others; see ON_ITS_PORTS",
    "simple_grpc_cudashm_client.py": "shares memory of a GPU, which is not served",
    "simple_http_cudashm_client.py": "shares memory of a GPU, which is not served",
}
ON_ITS_PORTS = (
    Example("memory_growth_test.py", "-i http -r 100"),
    Example("memory_growth_test.py", "-i grpc -r 100"),
)


@contextmanager
def serving(
    models: Iterable[str] = ALL, http_port: int = 0, grpc_port: int = 0, name: str = "triton"
) -> Generator[Server, None, None]:
    """Serve some models of the folder, with everything allowed."""

    def find(app: str) -> Mapping[int, Candidate]:
        path = MODELS / f"{app}.pipe"
        if not path.is_file():
            return {}
        return {1: Candidate(lambda: headrace.compile(path).plan)}

    config = ServerConfig(
        http_port=http_port,
        grpc_port=grpc_port,
        metrics_port=0,
        policy=policy_of((Access.CONTROL, Access.MEMORY, Access.SETTINGS), ()),
        regions=RegionsConfig(),
        labels=LABELS,
        name=name,
    )
    repository = Repository(EngineConfig(workers=2), find=find)
    try:
        for loading in [repository.load_later(one) for one in models]:
            loading.result()
        with serve(repository, config) as server:
            yield server
    finally:
        repository.close()


def write_pictures(folder: Path) -> None:
    """Write two pictures, of one kind of file each."""
    cv2.imwrite(str(folder / "dark.jpg"), np.full((100, 120, 3), 90, np.uint8))
    cv2.imwrite(str(folder / "light.png"), np.full((100, 120, 3), 180, np.uint8))


def run(example: Example, folder: Path, server: Server, pictures: Path) -> str:
    """Run one; returns what is wrong, or nothing."""
    at = server.addresses
    words = example.words.format(http=at.http, grpc=at.grpc, pictures=pictures).split()
    command = [sys.executable, str(folder / example.script), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return "it took longer than two minutes"
    said = done.stdout + done.stderr
    if example.says:
        return "" if done.returncode and example.says in said else said[-2000:]
    return said[-2000:] if done.returncode else ""


def _report(folder: Path, pictures: Path) -> bool:
    """Run all of them and print what came of each."""
    fine = True
    for models, ports, chosen in (
        (ALL, (0, 0), [one for one in EXAMPLES if one.models == ALL]),
        (SEVEN, (0, 0), [one for one in EXAMPLES if one.models == SEVEN]),
        (EIGHT, (0, 0), [one for one in EXAMPLES if one.models == EIGHT]),
        (ALL, (8000, 8001), ON_ITS_PORTS),
    ):
        with serving(models, *ports) as server:
            for example in chosen:
                start = time.perf_counter()
                wrong = run(example, folder, server, pictures)
                fine = fine and not wrong
                came = wrong.strip().splitlines()[-1] if wrong else "pass"
                if example.says and not wrong:
                    came = f"stops as it must: {example.says}"
                print(f"{time.perf_counter() - start:5.1f} s  {example}: {came}", flush=True)
    for script, reason in NOT_RUN.items():
        if script not in {one.script for one in ON_ITS_PORTS}:
            print(f"not run  {script}: {reason}")
    return fine


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        write_pictures(Path(made))
        os.environ.setdefault("PYTHONWARNINGS", "ignore")
        sys.exit(not _report(Path(sys.argv[1]), Path(made)))
