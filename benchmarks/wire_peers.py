"""The servers that the wire benchmarks drive, each a process, serving the models of one folder.

Ours is `headrace run` with its default flags. Peers live in environments of their own, see
README.md; one that is not installed is skipped, and `serving` says so.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from wire_models import SIDE, WIDTH
from wire_process import Server, free_port, started

HERE = Path(__file__).parent
PEERS = Path(os.environ.get("WIRE_PEERS", "/opt/peers"))
_START = 60.0  # seconds that a server has to get ready


class Missing(Exception):
    """A peer that is not installed."""


NATIVE = "headrace, native"


@contextmanager
def native(folder: Path) -> Generator[Server, None, None]:
    """Serve gRPC with ours on its other carrier, which is for callers one trusts."""
    with ours(folder, "--grpc-carrier", "pygrpc-native") as server:
        yield replace(server, name=NATIVE, http=None)


TWO = "headrace, 2 processes"


@contextmanager
def two(folder: Path) -> Generator[Server, None, None]:
    """Serve with ours from two processes."""
    with ours(folder, "--processes", "2") as server:
        yield replace(server, name=TWO)


@contextmanager
def ours(folder: Path, *flags: str) -> Generator[Server, None, None]:
    """Serve with `headrace run`, its default flags but for free ports."""
    command = [sys.executable, "-m", "headrace.cli", "run", folder / "wire.pipe"]
    command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *flags]
    with started(command, folder / f"headrace{''.join(flags)}.log") as process:
        http = told_by(process, r"http://(127\.0\.0\.1:\d+)")
        grpc = told_by(process, r"grpc://(127\.0\.0\.1:\d+)")
        yield Server("headrace", version("headrace"), process.pid, http, grpc)


def told_by(process: subprocess.Popen[str], pattern: str) -> str:
    """Return what a server says of itself when it is ready."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(pattern, line):
            return found[1]
    raise RuntimeError(f"it ended before it said {pattern}")


def bare(carrier: str, package: str) -> Callable[[Path], AbstractContextManager[Server]]:
    """Return what serves with a bare server of wire_servers.py."""

    @contextmanager
    def serve(folder: Path) -> Generator[Server, None, None]:
        command = [sys.executable, HERE / "wire_servers.py", folder, carrier]
        with started(command, folder / f"bare-{carrier}.log") as process:
            assert process.stdout is not None
            address = f"127.0.0.1:{int(process.stdout.readline())}"
            http, grpc = (address, None) if carrier == "http" else (None, address)
            yield Server(f"bare {package}", version(package), process.pid, http, grpc)

    return serve


@contextmanager
def mlserver(folder: Path) -> Generator[Server, None, None]:
    """Serve with MLServer, in its one process: with workers each request crosses two more."""
    python = _installed("mlserver")
    http, grpc = free_port(), free_port()
    served = folder / "mlserver"
    served.mkdir()
    settings = {
        "host": "127.0.0.1",
        "http_port": http,
        "grpc_port": grpc,
        "metrics_endpoint": None,
        "metrics_port": free_port(),
        "parallel_workers": 0,
        "debug": False,
        "grpc_max_message_length": 1 << 28,
        "environments_dir": str(served / "environments"),
        "metrics_dir": str(served / "metrics"),
    }
    (served / "settings.json").write_text(json.dumps(settings))
    for name in ("tiny", "words", "image", "big"):
        (served / name).mkdir()
        model = {"name": name, "implementation": "mlserver_model.WireModel"}
        (served / name / "model-settings.json").write_text(json.dumps(model))
    environment = {"WIRE_MODELS": str(folder), "PYTHONPATH": str(HERE / "peers")}
    command = [python.with_name("mlserver"), "start", served]
    with started(command, folder / "mlserver.log", environment) as process:
        _wait_ready(process, f"127.0.0.1:{http}")
        yield Server(
            "MLServer",
            _version_in(python, "mlserver"),
            process.pid,
            f"127.0.0.1:{http}",
            f"127.0.0.1:{grpc}",
            binary=False,
        )


_TRITON_MODELS = {
    "tiny": (
        {"a": ("TYPE_FP32", [WIDTH]), "b": ("TYPE_FP32", [WIDTH])},
        {"sum": ("TYPE_FP32", [WIDTH]), "difference": ("TYPE_FP32", [WIDTH])},
    ),
    "words": ({"x": ("TYPE_STRING", [-1])}, {"y": ("TYPE_STRING", [-1])}),
    "image": ({"x": ("TYPE_UINT8", [SIDE, SIDE, 3])}, {"mean": ("TYPE_FP32", [3])}),
    "big": ({"x": ("TYPE_FP32", [-1])}, {"y": ("TYPE_FP32", [-1])}),
}


@contextmanager
def triton(folder: Path) -> Generator[Server, None, None]:
    """Serve with the Triton of nvidia-pytriton: its Python backend, an instance of each model."""
    served = folder / "triton"
    for name, (inputs, outputs) in _TRITON_MODELS.items():
        (served / name / "1").mkdir(parents=True)
        (served / name / "1" / "model.py").symlink_to(HERE / "peers" / "triton_model.py")
        config = [f'name: "{name}"', 'backend: "python"', "max_batch_size: 0"]
        config += [_triton_tensor("input", *tensor) for tensor in inputs.items()]
        config += [_triton_tensor("output", *tensor) for tensor in outputs.items()]
        config.append("instance_group [{ kind: KIND_CPU, count: 1 }]")
        (served / name / "config.pbtxt").write_text("\n".join(config))
    with tritonserver(served, folder) as server:
        yield server


@contextmanager
def tritonserver(served: Path, folder: Path) -> Generator[Server, None, None]:
    """Serve a repository with that Triton; `folder` is for what it needs and says."""
    python = _installed("pytriton")
    packages = Path(_asked(python, "import pytriton; print(pytriton.__path__[0])")).parent
    home = packages / "pytriton" / "tritonserver"
    backends = _triton_backends(python, home, folder)
    http, grpc = free_port(), free_port()
    command = [home / "bin" / "tritonserver", f"--model-repository={served}"]
    command += [f"--backend-directory={backends}", "--allow-metrics=false"]
    command += [f"--http-port={http}", f"--grpc-port={grpc}", "--disable-auto-complete-config"]
    command += ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1"]
    environment = {
        "WIRE_MODELS": str(folder),
        "WIRE_PACKAGES": str(packages),
        "PATH": f"{python.parent}:{os.environ['PATH']}",  # whose Python runs the models
        "LD_LIBRARY_PATH": str(packages / "nvidia_pytriton.libs"),
    }
    with started(command, folder / "triton.log", environment) as process:
        _wait_ready(process, f"127.0.0.1:{http}")
        version = _metadata(f"127.0.0.1:{http}")["version"]
        yield Server("Triton", str(version), process.pid, f"127.0.0.1:{http}", f"127.0.0.1:{grpc}")


def _triton_backends(python: Path, home: Path, folder: Path) -> Path:
    """Return a folder with the Python backend, and beside it its stub for that Python."""
    minor = _asked(python, "import sys; print('%d.%d' % sys.version_info[:2])")
    stub = home / "python_backend_stubs" / minor / "triton_python_backend_stub"
    backend = folder / "backends" / "python"
    backend.mkdir(parents=True)
    for file in (*(home / "backends" / "python").iterdir(), stub):
        (backend / file.name).symlink_to(file)
    return backend.parent


def _triton_tensor(kind: str, name: str, tensor: tuple[str, list[int]]) -> str:
    datatype, dims = tensor
    return f'{kind} [{{ name: "{name}", data_type: {datatype}, dims: {dims} }}]'


def _installed(peer: str) -> Path:
    """Return the Python of a peer's environment."""
    python = PEERS / peer / "bin" / "python"
    if not python.exists():
        raise Missing(f"there is no {python}")
    return python


def _asked(python: Path, code: str) -> str:
    return subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def _version_in(python: Path, package: str) -> str:
    return _asked(python, f"import importlib.metadata as m; print(m.version('{package}'))")


def _wait_ready(process: subprocess.Popen[str], address: str) -> None:
    until = time.monotonic() + _START
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"http://{address}/v2/health/ready", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"{process.args} was not ready after {_START:g} s")


def _metadata(address: str) -> Mapping[str, object]:
    with urllib.request.urlopen(f"http://{address}/v2", timeout=5) as response:
        return json.load(response)


PEER_SERVERS: Mapping[str, Callable[[Path], AbstractContextManager[Server]]] = {
    NATIVE: native,
    "bare uvicorn": bare("http", "uvicorn"),
    "bare grpcio": bare("grpcio", "grpcio"),
    "bare pygrpc-native": bare("native", "pygrpc-native"),
    "MLServer": mlserver,
    "Triton": triton,
}


@contextmanager
def serving(
    folder: Path, wanted: Collection[str] | None = None, flags: Sequence[str] = ()
) -> Generator[tuple[list[Server], list[str]], None, None]:
    """Start all that there are, or those wanted, ours first; also tells who was left out and why.

    The folder holds the models; `flags` are for ours.
    """
    with ExitStack() as stack:
        servers = [stack.enter_context(ours(folder, *flags))]
        skipped: list[str] = []
        for name, serve in PEER_SERVERS.items():
            if wanted is not None and name not in wanted:
                continue
            try:
                servers.append(stack.enter_context(serve(folder)))
            except Missing as missing:
                skipped.append(f"{name} is left out: {missing}")
        yield servers, skipped
