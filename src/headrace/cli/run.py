"""`headrace run`: a plan behind gRPC and HTTP until it is told to stop."""

import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from . import _files
from .command import Command, Exit, RunFailure, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler.plan import Plan
    from ..runtime.fronts import Addresses
    from ..runtime.server_config import ServerConfig


def _port(text: str) -> int | None:
    if text == "off":
        return None
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise ArgumentTypeError(f"`{text}` is no port: 0 to 65535, or off")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ArgumentTypeError(f"`{text}` is no number of threads")
    return int(text)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="FILE", help="a .plan or .pipe file")
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine only")
    for name, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        parser.add_argument(
            f"--{name}-port",
            type=_port,
            default=port,
            metavar="PORT",
            help=f"default: {port}; 0 takes a free one, off serves none",
        )
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds, of a source")
    parser.add_argument("--workers", type=_count, metavar="N", help="default: one a core")
    parser.add_argument(
        "--tensorrt", action="store_true", help="let TensorRT run what the plan puts on a GPU"
    )
    parser.add_argument(
        "--grpc-carrier",
        choices=("auto", "pygrpc-native", "grpcio"),
        default="auto",
        help="auto: pygrpc-native where it is installed and can do what is asked",
    )
    for name, what in (
        ("certificate", "PEM file of the gRPC server's certificate"),
        ("key", "PEM file of its key"),
        ("client-authority", "PEM file; callers must show a certificate that it signed"),
    ):
        parser.add_argument(f"--tls-{name}", metavar="FILE", type=Path, help=what)


def _run(arguments: Namespace, console: Console) -> Exit:
    if (arguments.tls_certificate is None) != (arguments.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key go together")
    if arguments.tls_client_authority is not None and arguments.tls_key is None:
        raise UsageError("--tls-client-authority goes with --tls-certificate and --tls-key")
    if arguments.tls_key is not None and arguments.grpc_carrier == "pygrpc-native":
        raise UsageError("pygrpc-native has no TLS", "leave `--grpc-carrier` out, or take grpcio")
    plan = _files.plan_of(arguments.target, arguments.schedule, console)
    from ..runtime.engine import Engine, EngineConfig
    from ..runtime.protocols.forms import NoForm
    from ..runtime.server import serve

    config = _config(arguments)
    start = time.perf_counter()
    with console.progress("load") as progress:
        settings = EngineConfig(workers=arguments.workers, tensorrt=arguments.tensorrt)
        engine = Engine(plan, settings, progress=progress)
    try:
        server = serve([engine], config)
    except OSError as error:
        engine.close()
        raise RunFailure(f"cannot serve on {arguments.host}: {error.strerror or error}") from error
    except NoForm as error:
        engine.close()
        raise RunFailure(f"this cannot be served: {error}", "call it from Python") from error
    with server:
        console.print(f"{arguments.target} ready in {time.perf_counter() - start:.1f} s")
        _tell(plan, server.addresses, console)
        server.wait()
        console.say("draining: what is in flight ends, nothing new is taken")
    engine.close()
    console.say("stopped")
    return Exit.GOOD


def _config(arguments: Namespace) -> "ServerConfig":
    from ..runtime.server_config import Carrier, ServerConfig, Tls

    tls = None
    if arguments.tls_key is not None:
        authority = arguments.tls_client_authority
        tls = Tls(
            _pem(arguments.tls_certificate),
            _pem(arguments.tls_key),
            _pem(authority) if authority is not None else None,
        )
    return ServerConfig(
        arguments.host,
        arguments.http_port,
        arguments.grpc_port,
        arguments.metrics_port,
        Carrier(arguments.grpc_carrier),
        tls,
    )


def _tell(plan: "Plan", addresses: "Addresses", console: Console) -> None:
    """Print what is served and where."""
    from ..runtime.accept import show_signature

    for pipeline in plan.pipelines:
        console.print(f"  {show_signature(pipeline)}")
    if addresses.http is not None:
        console.print(f"http     http://{addresses.http}/v2/models/{plan.pipelines[0].name}")
    if addresses.grpc is not None:
        console.print(f"grpc     grpc://{addresses.grpc}  ({addresses.carrier.value})")
    if addresses.metrics is not None:
        console.print(f"metrics  http://{addresses.metrics}/metrics")
    console.flush()


def _pem(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}") from None


COMMAND = Command(
    "run",
    "serve a plan over gRPC and HTTP",
    "Speaks the Open Inference Protocol (KServe v2), as stock Triton clients do. SIGTERM and\n"
    "Ctrl-C drain: requests in flight end, new ones are refused, then the ports close.",
    _arguments,
    _run,
)
