"""A real tritonserver: that of nvidia-pytriton's wheel, on the CPU, with its Python backend only.

Its models run in an environment with headrace and a NumPy that this server can read:

    python -m venv /opt/peers/pytriton && /opt/peers/pytriton/bin/pip install nvidia-pytriton
    python -m venv /opt/peers/export && cd /opt/peers/export && bin/pip install -e \\
        '.../headrace[cpu,server,image]' 'numpy<2' 'opencv-python-headless<4.12' pyclipper pillow
"""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PEERS = Path(os.environ.get("WIRE_PEERS", "/opt/peers"))
_START = 120.0


@dataclass(frozen=True)
class Address:
    http: str
    grpc: str


@contextmanager
def tritonserver(repository: Path, folder: Path) -> Generator[Address]:
    """Serve a repository; `folder` is for what it needs and says. Skips where there is none."""
    server, models = PEERS / "pytriton", PEERS / "export"
    for environment in (server, models):
        if not (environment / "bin" / "python").exists():
            pytest.skip(f"there is no {environment}, see tests/export/tritonserver.py")
    packages = next((server / "lib").glob("python3.*")) / "site-packages"
    home = packages / "pytriton" / "tritonserver"
    http, grpc = free_port(), free_port()
    command = [
        home / "bin" / "tritonserver",
        f"--model-repository={repository}",
        f"--backend-directory={_backends(home, models, folder)}",
        *("--allow-metrics=false", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1"),
        "--exit-timeout-secs=1",  # of sequences that nobody has ended
        *(f"--http-port={http}", f"--grpc-port={grpc}"),
    ]
    environment = os.environ | {
        "PATH": f"{models / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{packages / 'nvidia_pytriton.libs'}:{_library_folder(models)}",
    }
    log = folder / "tritonserver.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        _wait_ready(process, http, log)
        yield Address(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}")
    finally:
        process.terminate()
        process.wait(60)


def _backends(home: Path, models: Path, folder: Path) -> Path:
    """Return a folder with the Python backend, and beside it its stub for the models' Python."""
    minor = _said(models, "'%d.%d' % sys.version_info[:2]")
    backend = folder / "backends" / "python"
    backend.mkdir(parents=True)
    stub = home / "python_backend_stubs" / minor / "triton_python_backend_stub"
    for file in (*(home / "backends" / "python").iterdir(), stub):
        (backend / file.name).symlink_to(file)
    return backend.parent


def _library_folder(models: Path) -> str:
    """Return where libpython is, which the stub is linked against."""
    return _said(models, "sysconfig.get_config_var('LIBDIR')")


def _said(environment: Path, expression: str) -> str:
    command = [environment / "bin" / "python", "-c", f"import sys, sysconfig; print({expression})"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _wait_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Ask until it is ready: a tritonserver tells nobody by itself when that is."""

    until = time.monotonic() + _START
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    lines = log.read_text().splitlines()
    raise AssertionError("\n".join(one for one in lines if one.startswith("E")))
