"""`headrace run --processes N`: a parent that starts as many servers of one kind, and keeps them.

apps are read once and kept ─▶ the ports are held ─▶ the first child serves ─▶ the others do
a child that ends is started anew ─▶ told to stop, all are ─▶ all have drained

The first is alone until it serves: what is wrong with an app is told once, and what is built at
loading is built once. Each child loads what the parent has read, so that none serves another
program because a source, or a model of a repository, has changed since. A child has a session of
its own: Ctrl-C is the parent's alone. The two have a socket: the child writes on it what it serves
when it does, and takes its end, or a word, for the signal to stop; so children end with a parent
that was killed.
"""

import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from socket import MSG_DONTWAIT, socket
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

from . import _apart, _kept, _loading, _serving
from ._apart import Refusal
from ._children import Children
from ._scratch import scratch
from .command import Exit, RunFailure
from .console import Console

if TYPE_CHECKING:
    from ..runtime.engine import EngineConfig
    from ..runtime.server_config import ServerConfig

DRAINING: Final = "draining: what is in flight ends, nothing new is taken"
_APPS: Final = "apps"
_ELSEWHERE: Final = "the environment variable TMPDIR names another folder"
_LONGEST: Final = 107 - len("/255.socket")
"""Bytes in the path of a folder with sockets: Linux has 107 for that of each."""

_PORTS: Final = ("http_port", "grpc_port", "metrics_port")


def serve(
    arguments: Namespace,
    config: "ServerConfig",
    settings: "EngineConfig",
    refused: Sequence[Refusal],
    console: Console,
) -> Exit:
    """Serve until a signal comes, from processes that are started here. What is `refused` already
    is told with what else is wrong."""
    from ..runtime.signals import ENDING, Told

    start = time.perf_counter()
    children: Children | None = None

    def heard(number: int, _: FrameType | None) -> None:
        if children is None or not children.serve:
            _leave(number)

    with ExitStack() as opened:
        told = opened.enter_context(Told(heard))
        folder = _folder(opened)
        _keep(arguments, settings, folder / _APPS, refused, console)
        place = _held(config, opened, folder, arguments.processes)
        program = _program(place, arguments.words)
        children = Children(arguments.processes, program, console.say)
        opened.callback(children.kill)
        failed = children.start()
        if failed is not None:
            return _failed(*failed)
        _tell(arguments, time.perf_counter() - start, children.told, console)
        told.wait()

        def end(number: int, _: FrameType | None) -> None:
            """End at once: a signal has come again."""
            children.kill()
            rmtree(folder, ignore_errors=True)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        for number in ENDING:
            signal.signal(number, end)
        console.say(DRAINING)
        ended = children.stop(arguments.grace)
    if not ended:
        console.say(f"stopped: some requests took longer than {arguments.grace:g} s")
        return Exit.FAILED
    console.say("stopped")
    return Exit.GOOD


def _tell(arguments: Namespace, seconds: float, told: str, console: Console) -> None:
    """Print what is served, and how."""
    many = f"{' '.join(arguments.targets)} ready in {seconds:.1f} s, in {arguments.processes}"
    each = ", each with all instances of its models" if arguments.model_repository else ""
    console.print(f"{many} processes{each}\n{told}")
    console.flush()


def _folder(opened: ExitStack) -> Path:
    """Make the folder that the processes share, and nobody else opens; raises RunFailure."""
    try:
        folder = opened.enter_context(scratch())
    except OSError as error:
        raise _not_written(error) from error
    if len(os.fsencode(folder)) > _LONGEST:
        raise RunFailure(f"no socket can be in `{folder}`, whose path is too long", _ELSEWHERE)
    return folder


def _leave(number: int) -> NoReturn:
    """End before all serve: what was begun is undone, which another signal does not keep."""
    from ..runtime.signals import ENDING, ignore

    for one in ENDING:
        signal.signal(one, ignore)
    raise SystemExit(128 + number)


def _not_written(error: OSError) -> RunFailure:
    return RunFailure(
        f"what the processes share cannot be written: {error.strerror or error}", _ELSEWHERE
    )


def _keep(
    arguments: Namespace,
    settings: "EngineConfig",
    folder: Path,
    refused: Sequence[Refusal],
    console: Console,
) -> None:
    """Read what is going to be served, and write it where each process loads it; raises what keeps
    any of it from being served."""
    from ..runtime.repository.state import LoadFailed

    find = _loading.finder(arguments, console)
    found, named = find(), _serving.named(arguments.targets)
    repository, _ = _loading.repository_of(arguments, settings, find)
    failures: list[LoadFailed] = []
    refused = [*refused]
    for app, versions in sorted(found.items()):
        for number in sorted(repository.chosen(app, versions.keys())):
            try:
                plan, described = versions[number].read(), versions[number].describe()
            except Exception as error:
                if app in named or not _serving.is_part(error):
                    failures.append(LoadFailed(app, number, error, stays=False))
                continue
            refused += _apart.of_plan(plan, resources=bool(arguments.model_repository))
            try:
                _kept.keep(folder, app, number, plan, described)
            except OSError as error:
                raise _not_written(error) from error
    repository.close()
    if refused:
        _loading.show(failures, console)
        _apart.refuse(refused, console)
    _loading.refuse(failures, console)
    if not folder.exists():
        raise _serving.nothing_in(arguments.targets)
    _serving.check_parts(found, arguments)


def _held(config: "ServerConfig", opened: ExitStack, folder: Path, count: int) -> "Place":
    """Hold the ports, those that were free among them; raises RunFailure."""
    from ..runtime.ports import reserved

    ports: list[int | None] = []
    for name in _PORTS:
        port: int | None = getattr(config, name)
        if port is not None:
            try:
                holding = opened.enter_context(reserved(config.host, port))
            except OSError as error:
                raise _serving.not_served(config.host, error) from error
            port = holding.getsockname()[1]
        ports.append(port)
    return Place(str(folder), 0, count, (ports[0], ports[1], ports[2]))


_CODE: Final = """\
import sys
sys.path[:] = {path}
from headrace.cli._processes import Place, child
sys.exit(child({place}, {words}))
"""


def _program(place: "Place", words: tuple[str, ...]) -> "Callable[[int, int], list[str]]":
    """Return what gives the command of a child by its number and its end of the socket."""

    def command(number: int, descriptor: int) -> list[str]:
        own = replace(place, number=number, descriptor=descriptor)
        code = _CODE.format(path=list(map(str, sys.path)), place=own, words=words)
        return [sys.executable, "-c", code]

    return command


def _failed(number: int, status: int | None) -> Exit:
    """Return how a run ends whose process could not be started, which has said why."""
    if status in (Exit.MISTAKES, Exit.USAGE, Exit.FAILED):
        return Exit(status)
    how = "could not be started" if status is None else f"ended with status {status}"
    raise RunFailure(f"process {number} {how} before it could serve")


# ---- in a child


@dataclass(frozen=True, slots=True)
class Place:
    """What a child is told: the folder of all, its number, the ports for HTTP, gRPC and metrics,
    and its end of the socket."""

    folder: str
    number: int
    count: int
    ports: tuple[int | None, int | None, int | None]
    descriptor: int = -1

    @property
    def apps(self) -> Path:
        """Where the apps are that the parent has read."""
        return Path(self.folder) / _APPS

    @property
    def own(self) -> Path:
        """Where this process has files of its own."""
        return Path(self.folder) / f"{self.number}.files"

    def adopted(self, config: "ServerConfig") -> "ServerConfig":
        """Return a configuration with this place in it."""
        from ..runtime.server_config import Process

        http, grpc, metrics = self.ports
        process = Process(Path(self.folder), self.number, self.count)
        return replace(
            config, http_port=http, grpc_port=grpc, metrics_port=metrics, process=process
        )


def serving(arguments: Namespace, console: Console) -> socket | None:
    """Tell the parent, if there is one, that this child serves; returns where it says, or shows by
    its end, that it is to stop."""
    console.flush()
    parent: socket | None = arguments.parent
    if parent is not None:
        parent.sendall(b"\0")
    return parent


def child(place: Place, words: tuple[str, ...]) -> int:
    """Run the command as a child: what it prints goes to the parent, and it stops but once."""
    from ..runtime.signals import ENDING, ignore
    from .main import main

    for number in ENDING:
        signal.signal(number, ignore)
    standard = Console.standard()
    with socket(fileno=place.descriptor) as parent, parent.makefile("w", encoding="utf-8") as out:
        console = Console(out, standard.err, not standard.err_colour)
        try:
            return main(words, console, {"place": place, "parent": parent})
        finally:
            with suppress(OSError):
                if not parent.recv(1, MSG_DONTWAIT):
                    rmtree(place.folder, ignore_errors=True)  # the parent does not any more
