"""`headrace run` in a process of its own, whose memory is looked at while it is attacked."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from headrace.compiler.plan_file import write
from tests.runtime.wire.plans import toy_plan

MIB = 1 << 20


class Hosted:
    """A server of the toy pipelines; `http` and `grpc` are host:port."""

    def __init__(self, folder: Path, *words: str, open_files: int | None = None) -> None:
        plan = folder / "toys.plan"
        write(toy_plan(), plan)
        ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
        self.log = folder / "log.txt"
        command = [sys.executable, "-m", "headrace.cli", "run", str(plan), *ports, *words]
        if open_files is not None:
            command = ["sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh", *command]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        said: dict[str, str] = {}
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words_said = line.split()
            if words_said and words_said[0] in ("http", "grpc", "metrics"):
                said[words_said[0]] = words_said[1].partition("://")[2].partition("/")[0]
            if "metrics" in said:
                break
        if "metrics" not in said:
            self.close()
            raise AssertionError(self.log.read_text())
        self.http, self.grpc, self.metrics = said["http"], said["grpc"], said["metrics"]

    def peak(self) -> int:
        """The most memory since `forget_peak`, in bytes."""
        return self._status("VmHWM")

    def forget_peak(self) -> int:
        """Begin anew to look for a peak; returns what there is now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self._status("VmRSS")

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition(f"{name}:")[2].split()[0]) * 1024

    def serves(self) -> None:
        """Assert that the same process answers, and rightly."""
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        tensor = {"name": "x0", "datatype": "FP32", "shape": [2], "data": [0.5, 1.5]}
        with httpx.Client(base_url=f"http://{self.http}", timeout=60) as http:
            answer = http.post("/v2/models/echo_f32/infer", json={"inputs": [tensor]})
        assert answer.json()["outputs"][0]["data"] == [0.5, 1.5]

    def connect(self) -> socket.socket:
        """Open a connection to the HTTP port."""
        host, _, port = self.http.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=30)

    def close(self) -> int:
        """End it; returns its status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()


@contextmanager
def hosting(
    folder: Path, *words: str, open_files: int | None = None
) -> Generator[Hosted, None, None]:
    made = Hosted(folder, *words, open_files=open_files)
    try:
        yield made
    finally:
        made.close()


def exchange(connection: socket.socket, content: bytes) -> list[int]:
    """Send, ask once more, and return the status of each answer, until the server closes."""
    parts: list[bytes] = []
    with suppress(ConnectionError):
        connection.sendall(content + b"GET /v2/health/live HTTP/1.1\r\nConnection: close\r\n\r\n")
    with suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d\d\d)", b"".join(parts))]


def closed_after(connection: socket.socket) -> int:
    """Return the status of what is answered before the server closes."""
    found = b""
    with suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            found += part
    return int(found.split()[1])


def post(path: str, content: bytes, *headers: str) -> bytes:
    """A request as it goes over the wire."""
    lines = "".join(f"{line}\r\n" for line in ("Host: x", *headers))
    return (
        f"POST {path} HTTP/1.1\r\n{lines}Content-Length: {len(content)}\r\n\r\n".encode() + content
    )


GOOD = json.dumps(
    {"inputs": [{"name": "x0", "datatype": "FP32", "shape": [2], "data": [0.5, 1.5]}]}
).encode()
INFER = "/v2/models/echo_f32/infer"
