"""The tritonserver of nvidia-pytriton, which says what is right: its Python backend, and ensembles.

It is started once on an empty repository and told to load and unload what a case writes there. One
that has died, or does not unload what it is told to, has another in its place for the next case.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

PYTHON = Path("/opt/peers/pytriton/bin/python")
_LONGEST = 60.0  # seconds that anything may take


@dataclass(slots=True)
class Referee:
    """A server whose repository is `folder`; it is of no more use once it is `stuck`."""

    address: str
    grpc: str
    folder: Path
    log: Path
    process: subprocess.Popen[bytes]
    stuck: bool = False

    @property
    def fit(self) -> bool:
        return not self.stuck and self.process.poll() is None

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:  # Any: JSON
        """Return the status and the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}/v2/{path}", data)
        try:
            with urllib.request.urlopen(request, timeout=_LONGEST) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def load(self, name: str) -> str:
        """Load a model; returns why it is refused, and nothing if it is not."""
        before = self.log.stat().st_size
        status, answer = self.ask(f"repository/models/{name}/load", {})
        if status == 200:
            return ""
        said = self.log.read_bytes()[before:].decode(
            "utf-8", "replace"
        )  # what the answer leaves out
        lines = [answer["error"], *re.findall(r"^E.*?\] (.*)$", said, re.MULTILINE)]
        return "\n".join(lines).replace(f"{self.folder.parent}/", "")

    def clear(self, names: Sequence[str]) -> None:
        """Unload models, wait until they are gone, and remove their folders."""
        self.stuck = True  # unless all of this succeeds
        for name in names:
            self.ask(f"repository/models/{name}/unload", {})
        last = time.monotonic() + _LONGEST
        while any(
            one["name"] in names and one.get("state") not in (None, "UNAVAILABLE")
            for one in self.ask("repository/index", {})[1]
        ):
            assert time.monotonic() < last, "it does not unload what has been asked"
            time.sleep(0.02)
        for entry in self.folder.iterdir():
            shutil.rmtree(entry)
        self.stuck = False


@contextmanager
def refereeing(folder: Path) -> Generator[Callable[[], Referee], None, None]:
    """Return what gives the server, another one once it is of no use; they keep what they need in
    `folder`."""
    found: list[Referee] = []
    numbers = count()
    with ExitStack() as running:

        def fit() -> Referee:
            if not found or not found[-1].fit:
                running.close()
                found.append(running.enter_context(_started(folder / str(next(numbers)))))
            return found[-1]

        yield fit


@contextmanager
def _started(folder: Path) -> Generator[Referee, None, None]:
    asked = "import pytriton, sys; print(pytriton.__path__[0], '%d.%d' % sys.version_info[:2])"
    told = subprocess.run([PYTHON, "-c", asked], check=True, capture_output=True, text=True)
    package, minor = told.stdout.split()
    home = Path(package) / "tritonserver"
    backend = folder / "backends" / "python"
    backend.mkdir(parents=True)
    stub = home / "python_backend_stubs" / minor / "triton_python_backend_stub"
    for file in (*(home / "backends" / "python").iterdir(), stub):
        (backend / file.name).symlink_to(file)
    models = folder / "models"
    models.mkdir()
    http, grpc = _free_port(), _free_port()
    command = [home / "bin" / "tritonserver", f"--model-repository={models}"]
    command += ["--model-control-mode=explicit", f"--backend-directory={backend.parent}"]
    command += [f"--http-port={http}", f"--grpc-port={grpc}", "--allow-metrics=false"]
    command += ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1"]
    command += [f"--cache-directory={home / 'caches'}", "--cache-config=local,size=1048576"]
    path = f"{PYTHON.parent}:{os.environ['PATH']}"
    packages = Path(package).parent
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(packages)}
    environment["LD_LIBRARY_PATH"] = str(packages / "nvidia_pytriton.libs")
    log = folder / "log"
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process,
    ):
        try:
            referee = Referee(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}", models, log, process)
            _wait(referee)
            yield referee
        finally:
            process.kill()  # it waits for ever for a model that hangs; the models' processes see it
            process.wait(_LONGEST)


def _wait(referee: Referee) -> None:
    last = time.monotonic() + _LONGEST
    while time.monotonic() < last:
        assert referee.fit, referee.log.read_text()
        try:
            if referee.ask("health/live")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(referee.log.read_text())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]
