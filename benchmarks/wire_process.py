"""Servers as processes: started, stopped, and what they take of the machine."""

import os
import re
import socket
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready. An address is host:port, None where it does not serve that.
    `binary` says whether its HTTP knows binary data."""

    name: str
    version: str
    pid: int
    http: str | None
    grpc: str | None
    binary: bool = True

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process and all its descendants so far."""
        return sum(_cpu_seconds(pid) for pid in _tree(self.pid))

    def memory(self, *, reset: bool = False) -> int:
        """Return how many bytes all of them had in memory at most, each at its time, since the last
        reset."""
        return sum(_memory(pid, reset) for pid in _tree(self.pid))


def _tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except FileNotFoundError:  # a thread that has ended meanwhile
            continue
        for child in children:
            found += _tree(int(child))
    return found


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory(pid: int, reset: bool) -> int:
    if reset:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    told = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(told[1]) * 1024 if told is not None else 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@contextmanager
def started(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Generator[subprocess.Popen[str], None, None]:
    """Run a command until the block is left; what it prints to stderr goes to a file."""
    env = None if environment is None else {**os.environ, **environment}
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
