"""`headrace run --processes N`: a parent that starts as many servers of one plan, and keeps them.

the plan is compiled once and kept ─▶ the ports are held ─▶ the first child serves ─▶ the others do
a child that ends is started anew ─▶ told to stop, all are ─▶ all have drained

The first is alone until it serves: what is wrong with a plan is told once, and what is built at
loading is built once. Each child loads the plans that the parent has compiled, so that none serves
another program because a source has changed since. A child has a session of its own: Ctrl-C is the
parent's alone. The two have a socket: the child writes on it what it serves when it does, and takes
its end, or a word, for the signal to stop; so children end with a parent that was killed.
"""

import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from socket import MSG_DONTWAIT, socket
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Final

from . import _loading, _serving
from ._children import Children
from .command import Exit, RunFailure, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler.plan import Plan
    from ..runtime.access import Policy
    from ..runtime.engine import EngineConfig
    from ..runtime.server_config import ServerConfig

DRAINING: Final = "draining: what is in flight ends, nothing new is taken"
_ONE: Final = "leave `--processes` out"
_PLANS: Final = "plans"
_ELSEWHERE: Final = "the environment variable TMPDIR names another folder"
_LONGEST: Final = 107 - len("/255.socket")
"""Bytes in the path of a folder with sockets: Linux has 107 for that of each."""

_PORTS: Final = ("http_port", "grpc_port", "metrics_port")


def check(arguments: Namespace, policy: "Policy") -> None:
    """Raise UsageError for what cannot be right with several processes.

    What changes a server would change the one process that is asked, and none that is started anew.
    """
    if arguments.processes == 1:
        return
    from ..runtime.access import OPEN, Access

    changing = [access for access in Access if access not in OPEN and policy.serves(access)]
    allowed = " and ".join(access.value for access in changing)
    refused = (
        (sys.platform != "linux", "wants Linux, which spreads connections over processes", _ONE),
        (
            arguments.model_repository,
            "does not go with --model-repository: its models say how many instances there are",
            f"{_ONE}, and let `instance_group` have more",
        ),
        (
            arguments.watch or arguments.control == "poll",
            "does not go with --watch: processes would change at different times",
            f"{_ONE}, or start the server anew after a change",
        ),
        (
            changing,
            f"does not go with callers who may ask for {allowed}: that would change one process",
            f"{_ONE}, or --control, --allow and tokens for {allowed}",
        ),
        (
            arguments.trace_file,
            "does not go with --trace-file: a file has one writer",
            "send traces to a collector, with `--otel URL`",
        ),
        (
            arguments.grpc_carrier == "pygrpc-native",
            "does not go with --grpc-carrier pygrpc-native, which works outside of the "
            "interpreter's lock",
            f"{_ONE}, or --grpc-carrier",
        ),
    )
    for applies, why, cure in refused:
        if applies:
            raise UsageError(f"--processes {why}", cure)


def serve(
    arguments: Namespace, config: "ServerConfig", settings: "EngineConfig", console: Console
) -> Exit:
    """Serve until a signal comes, from processes that are started here."""
    from ..runtime.signals import ENDING, until_told_to_stop

    start = time.perf_counter()
    with ExitStack() as opened:
        for number in ENDING:
            opened.callback(signal.signal, number, signal.signal(number, _leave))
        folder = _folder(opened)
        _keep_plans(arguments, settings, folder / _PLANS, console)
        place = _held(config, opened, folder, arguments.processes)
        program = _program(place, arguments.words)
        children = Children(arguments.processes, program, console.say)
        opened.callback(children.kill)
        failed = children.start()
        if failed is not None:
            return _failed(*failed)
        seconds = time.perf_counter() - start
        many = f"{' '.join(arguments.targets)} ready in {seconds:.1f} s"
        console.print(f"{many}, in {arguments.processes} processes\n{children.told}")
        console.flush()
        until_told_to_stop()

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


def _leave(number: int, _: FrameType | None) -> None:
    """End before all serve: what was begun is undone, which another signal does not keep."""
    from ..runtime.signals import ENDING, ignore

    for one in ENDING:
        signal.signal(one, ignore)
    raise SystemExit(128 + number)


def _folder(opened: ExitStack) -> Path:
    """Make the folder that the processes share, and nobody else opens; raises RunFailure."""
    import fcntl

    try:
        made = TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True)
    except OSError as error:
        raise _not_written(error) from error
    folder = Path(opened.enter_context(made))
    if len(os.fsencode(folder)) > _LONGEST:
        raise RunFailure(f"no socket can be in `{folder}`, whose path is too long", _ELSEWHERE)
    descriptor = os.open(folder, os.O_RDONLY)
    opened.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # so that what clears old files away leaves it alone
    return folder


def _not_written(error: OSError) -> RunFailure:
    return RunFailure(
        f"what the processes share cannot be written: {error.strerror or error}", _ELSEWHERE
    )


def _keep_plans(
    arguments: Namespace, settings: "EngineConfig", folder: Path, console: Console
) -> None:
    """Compile what is going to be served, and write it where each process loads it."""
    from ..compiler.plan_file import write
    from ..runtime.repository.state import LoadFailed

    find = _loading.finder(arguments, console)
    found, named = find(), _serving.named(arguments.targets)
    repository, _ = _loading.repository_of(arguments, settings, find)
    failures: list[LoadFailed] = []
    for app, versions in sorted(found.items()):
        for number in sorted(repository.chosen(app, versions.keys())):
            try:
                plan = versions[number].read()
            except Exception as error:
                if app in named or not _serving.is_part(error):
                    failures.append(LoadFailed(app, number, error, stays=False))
                continue
            _refuse_states(plan)
            path = folder / app / str(number) / "model.plan"
            try:
                path.parent.mkdir(parents=True)
                write(plan, path)
            except OSError as error:
                raise _not_written(error) from error
    repository.close()
    _loading.refuse(failures, console)
    if not folder.exists():
        raise _serving.nothing_in(arguments.targets)
    _serving.check_parts(found, arguments)


def _refuse_states(plan: "Plan") -> None:
    for pipeline in plan.pipelines:
        if pipeline.idle is not None:
            raise UsageError(
                f"--processes does not go with `{pipeline.name}`, which keeps states between the "
                "requests of a sequence: each of them may come to another process",
                f"{_ONE}, or serve this pipeline by a server of its own",
            )


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

    def adopt(self, arguments: Namespace) -> None:
        """Let the plans be served that the parent has compiled."""
        arguments.targets, arguments.schedule = [str(Path(self.folder) / _PLANS)], None

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
