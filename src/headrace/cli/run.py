"""`headrace run`: plans behind gRPC and HTTP until it is told to stop."""

import os
import signal
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final, NoReturn

from . import (
    _apart,
    _engines,
    _limits,
    _loading,
    _observing,
    _permissions,
    _processes,
    _scratch,
    _serving,
    _triton,
)
from .command import Command, Exit, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..runtime.engine import EngineConfig
    from ..runtime.fronts import Addresses
    from ..runtime.repository.repository import Repository
    from ..runtime.server_config import ServerConfig


_MOST_PROCESSES: Final = 256
"""A slip of the finger is no reason to fill a machine with processes."""


def _port(text: str) -> int | None:
    if text == "off":
        return None
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise ArgumentTypeError(f"`{text}` is no port: 0 to 65535, or off")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ArgumentTypeError(f"`{text}` is no number from 1")
    return int(text)


def _processes_of(text: str) -> int:
    if (count := _count(text)) > _MOST_PROCESSES:
        raise ArgumentTypeError(f"`{text}` is more than {_MOST_PROCESSES}")
    return count


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < 1e9:
        raise ArgumentTypeError(f"`{text}` is no number of seconds")
    return seconds


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "targets", metavar="FILE", nargs="*", help="a .plan or .pipe file, or a folder of them"
    )
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine only")
    for name, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        parser.add_argument(
            f"--{name}-port",
            type=_port,
            default=port,
            metavar="PORT",
            help=f"default: {port}; 0 takes a free one, off serves none",
        )
    _serving.add_arguments(parser)
    parser.add_argument(
        "--grace",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="what requests in flight have to end when it stops; default: 30",
    )
    _permissions.add_arguments(parser)
    parser.add_argument(
        "--name", default="headrace", help="what the server says it is called; default: headrace"
    )
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds, of a source")
    parser.add_argument("--workers", type=_count, metavar="N", help="default: one a core")
    parser.add_argument(
        "--processes",
        type=_processes_of,
        default=1,
        metavar="N",
        help="serve from so many processes on the same ports, which share the cores, each with "
        "models and instances of its own; default: 1",
    )
    parser.set_defaults(place=None, parent=None)
    parser.add_argument(
        "--tensorrt", action="store_true", help="let TensorRT run what the plan puts on a GPU"
    )
    _engines.add_argument(parser, "keep engines of TensorRT there, to build them once")
    parser.add_argument(
        "--grpc-carrier",
        choices=("auto", "pygrpc-native", "grpcio"),
        default="auto",
        help="auto: grpcio; pygrpc-native takes a quarter of its time and holds messages of any "
        "size before it refuses them: for callers you trust",
    )
    _limits.add_arguments(parser)
    _observing.add_arguments(parser)
    _triton.add_arguments(parser)


def _run(arguments: Namespace, console: Console) -> Exit:
    _observing.say_in_lines(arguments, console)
    _triton.adopt(arguments, console)
    _check(arguments)
    place: _processes.Place | None = arguments.place
    explicit, watch = arguments.control == "explicit", _watches(arguments)
    find = _loading.finder(arguments, console)
    from ..runtime.repository.heap import bound_heaps
    from ..runtime.repository.state import State
    from ..runtime.server import serve
    from ..runtime.signals import Told

    config, settings = _config(arguments), _settings(arguments)
    refused = _apart.of_words(arguments, config.policy) if arguments.processes > 1 else []
    if arguments.print_config:
        if refused:
            _apart.refuse(refused, console)
        console.print(_limits.as_json(config, settings, arguments))
        return Exit.GOOD
    if place is not None:
        config = place.adopted(config)
    elif arguments.processes > 1:
        return _processes.serve(arguments, config, settings, refused, console)
    _raise_open_files()
    bound_heaps()
    start = time.perf_counter()
    with ExitStack() as opened:
        folder = opened.enter_context(_scratch.own(None if place is None else place.own))
        opened.enter_context(_observing.log(arguments))
        observer = _observing.observer(arguments)
        if observer is not None:
            opened.callback(observer.close)
        repository, keeper = _loading.repository_of(arguments, settings, find)
        opened.callback(repository.close)
        if not explicit:
            _loading.load(keeper, _serving.named(arguments.targets), console, arguments)
            if not repository.routes and not watch:
                raise _serving.nothing_in(arguments.targets)
        if not (explicit or watch):
            _serving.check_parts(find(), arguments)
            _permissions.check_labels(config, repository)
        for name in find() if "*" in arguments.load else arguments.load:
            _loading.load_named(repository, name)
        told = opened.enter_context(Told())  # before anybody is told that it serves
        try:
            server = serve(repository, config, observer)
        except OSError as error:
            raise _serving.not_served(arguments.host, error) from error
        if watch:
            from ..runtime.repository.watch import Watch

            folders = _serving.watched(arguments.targets)
            opened.callback(Watch(folders, lambda _: _loading.renew(keeper, console)).close)
        with server:
            seconds = time.perf_counter() - start
            if place is None:
                console.print(f"{' '.join(arguments.targets)} ready in {seconds:.1f} s")
            _tell(repository, config, server.addresses, console)
            if explicit and not repository.routes:
                console.print("nothing is loaded until a caller asks: `--load NAME` loads at once")
            told.wait(_processes.serving(arguments, console))
            told.close()
            if place is None:
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
                console.say(_processes.DRAINING)
            ended = server.stop()
        if not ended:
            why = f"stopped: some requests took longer than {arguments.grace:g} s"
            _end(None if place is not None else why, Exit.FAILED, folder, console)
        if any(entry.state is State.LOADING for entry in repository.index()):
            _end("stopped: a load that was under way is given up", Exit.GOOD, folder, console)
    if place is None:
        console.say("stopped")
    return Exit.GOOD


def _check(arguments: Namespace) -> None:
    """Raise UsageError where options do not go together."""
    if (arguments.tls_certificate is None) != (arguments.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key go together")
    if arguments.tls_client_authority is not None and arguments.tls_key is None:
        raise UsageError("--tls-client-authority goes with --tls-certificate and --tls-key")
    if arguments.tls_key is not None and arguments.grpc_carrier == "pygrpc-native":
        raise UsageError("pygrpc-native has no TLS", "leave `--grpc-carrier` out, or take grpcio")
    explicit = arguments.control == "explicit"
    if arguments.load and not explicit:
        raise UsageError("--load goes with --control explicit")
    if explicit and _watches(arguments):
        raise UsageError("--watch loads what changes, --control explicit what callers say")
    if {arguments.http_port, arguments.grpc_port} == {None}:
        raise UsageError("without HTTP and gRPC nothing is served")


def _watches(arguments: Namespace) -> bool:
    return arguments.watch or arguments.control == "poll"


def _end(why: str | None, status: Exit, folder: Path | None, console: Console) -> NoReturn:
    """End at once: what still runs cannot be waited for. Of one of several the parent tells."""
    if why is not None:
        console.say(why)
    if folder is not None:
        rmtree(folder, ignore_errors=True)
    os._exit(status)


def _raise_open_files() -> None:
    """Let there be as many connections as the system allows this process."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _settings(arguments: Namespace) -> "EngineConfig":
    from ..runtime.engine import EngineConfig

    settings = EngineConfig(
        workers=arguments.workers,
        processes=arguments.processes,
        tensorrt=arguments.tensorrt,
        engines=_engines.folder(arguments),
    )
    return _limits.with_limits(settings, arguments)


def _config(arguments: Namespace) -> "ServerConfig":
    from ..runtime.server_config import Carrier, ServerConfig

    return ServerConfig(
        arguments.host,
        arguments.http_port,
        arguments.grpc_port,
        arguments.metrics_port,
        Carrier(arguments.grpc_carrier),
        _limits.tls(arguments),
        limits=_limits.limits(arguments),
        callers=_limits.callers(arguments),
        grace=arguments.grace,
        policy=_permissions.policy(arguments),
        regions=_permissions.regions(arguments),
        forwarded=arguments.forward_headers,
        labels=_permissions.labels(arguments),
        name=arguments.name,
        page=arguments.page,
        hosts=frozenset(arguments.host_name),
    )


def _tell(
    repository: "Repository", config: "ServerConfig", addresses: "Addresses", console: Console
) -> None:
    """Print what is served and where."""
    from ..runtime.accept import show_signature

    routes = repository.routes
    for name in routes:
        numbers = ", ".join(routes[name].versions)
        shown = "" if numbers == "1" else f"  (version {numbers})"
        if (main := routes[name].main) is not None:
            console.print(f"  {show_signature(main.model.pipeline)}{shown}")
    secure = "" if config.tls is None else "s"
    if addresses.http is not None:
        first = f"/models/{next(iter(routes))}" if routes else ""
        console.print(f"http     http{secure}://{addresses.http}/v2{first}")
        if config.page:
            console.print(f"page     http{secure}://{addresses.http}/")
    if addresses.grpc is not None:
        console.print(f"grpc     grpc{secure}://{addresses.grpc}  ({addresses.carrier.value})")
    if addresses.metrics is not None:
        console.print(f"metrics  http://{addresses.metrics}/metrics")
    console.flush()


COMMAND = Command(
    "run",
    "serve plans over gRPC and HTTP",
    "Speaks the Open Inference Protocol (KServe v2), as stock Triton clients do. A folder holds\n"
    "NAME.plan, NAME.pipe and NAME/VERSION/model.plan. SIGTERM and Ctrl-C drain: requests in\n"
    "flight end, new ones are refused, then the ports close; a second one ends it at once.",
    _arguments,
    _run,
)
