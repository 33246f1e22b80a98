"""The options of a tritonserver, for `headrace run --model-repository DIR`: read as it reads them,
and turned into ours. What has no effect here is told; what would change answers is refused."""

from argparse import SUPPRESS, Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .command import UsageError
from .console import Console

if TYPE_CHECKING:
    from ..dsl.diagnostic import Diagnostic
    from ..runtime.repository.keeper import Apps
    from ..runtime.repository.version import Configure
    from ..triton.complete import Defaults
    from ..triton.serving import Options

_WITHOUT_EFFECT: Final = (
    *("model-load-thread-count", "model-load-retry-count", "model-load-gpu-limit"),
    *("pinned-memory-pool-byte-size", "cuda-memory-pool-byte-size", "buffer-manager-thread-count"),
    *("cuda-virtual-address-size", "min-supported-compute-capability", "backend-directory"),
    *("http-thread-count", "http-max-input-size", "grpc-infer-thread-count", "grpc-keepalive-time"),
    *("grpc-infer-allocation-pool-size", "grpc-max-response-pool-size", "grpc-keepalive-timeout"),
    *("metrics-interval-ms", "metrics-config", "repository-poll-secs", "host-policy", "log-file"),
    *("cache-directory", "repoagent-directory", "allow-cpu-metrics", "allow-gpu-metrics"),
    *("enable-peer-access", "reuse-http-port", "reuse-grpc-port", "cuda-graphs", "log-info"),
    *("log-warning", "log-error", "grpc-infer-response-compression-level"),
    *("grpc-keepalive-permit-without-calls", "grpc-http2-max-pings-without-data"),
    *("grpc-http2-min-recv-ping-interval-without-data", "grpc-http2-max-ping-strikes"),
    *("grpc-max-connection-age", "grpc-max-connection-age-grace", "sagemaker-port"),
    *("sagemaker-safe-port-range", "sagemaker-thread-count", "vertex-ai-port"),
    *("vertex-ai-thread-count", "vertex-ai-default-model"),
    *("trace-level", "trace-count", "trace-log-frequency"),
)
"""Options of how a tritonserver works inside, or of what is told otherwise here."""

_TOKENS: Final = "`--tokens FILE` says who may do what"
_TLS: Final = "see --tls-certificate, --tls-key and --tls-client-authority"
_REFUSED: Final[Mapping[str, str]] = {
    "http-restricted-api": _TOKENS,
    "grpc-restricted-protocol": _TOKENS,
    "model-namespacing": "names of models are their own; rename those that are equal",
    "grpc-use-ssl": _TLS,
    "grpc-use-ssl-mutual": _TLS,
    "grpc-server-cert": _TLS,
    "grpc-server-key": _TLS,
    "grpc-root-cert": _TLS,
    "allow-sagemaker": "clients speak HTTP or gRPC",
    "allow-vertex-ai": "clients speak HTTP or gRPC",
}
"""Options that would change who gets which answer, unless they are switched off."""
_BACKENDS: Final = ("default-max-batch-size", "in-process")
"""The settings of `--backend-config` that matter here."""


def add_arguments(parser: ArgumentParser) -> None:
    group = parser.add_argument_group(
        "a Triton repository", "Served as a tritonserver serves it; most of its options are known."
    )
    group.add_argument(
        *("--model-repository", "--model-store"),
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of models with their config.pbtxt, in place of FILE; may be repeated",
    )
    group.add_argument("--model-control-mode", choices=("none", "poll", "explicit"))
    group.add_argument("--load-model", action="append", default=[], metavar="NAME")
    group.add_argument("--model-config-name", metavar="NAME", help="of MODEL/configs/NAME.pbtxt")
    for name, otherwise, what in (
        ("exit-on-error", True, "end when a model cannot be loaded; default: true"),
        ("strict-readiness", True, "ready only when all models are; default: true"),
        ("strict-model-config", False, "ask no Python model what it takes and gives"),
        ("disable-auto-complete-config", False, "the same"),
        *((f"allow-{one}", True, "serve it; default: true") for one in ("http", "grpc", "metrics")),
    ):
        group.add_argument(
            f"--{name}", type=_flag, nargs="?", const=True, default=otherwise, help=what
        )
    for one in ("http", "grpc", "metrics"):
        group.add_argument(f"--{one}-address", metavar="HOST", help="all of them are one, --host")
    group.add_argument(
        "--cache-config", type=_cache, action="append", default=[], metavar="local,size=BYTES"
    )
    group.add_argument("--response-cache-byte-size", type=int, metavar="BYTES")
    group.add_argument("--rate-limit", choices=("off", "execution_count"), default="off")
    group.add_argument(
        "--rate-limit-resource",
        type=_resource,
        action="append",
        default=[],
        metavar="NAME:COUNT[:DEVICE]",
    )
    group.add_argument(
        "--backend-config",
        action="append",
        default=[],
        metavar="BACKEND,NAME=VALUE",
        help="default-max-batch-size=N; python,in-process=true: Python models without a process",
    )
    group.add_argument("--exit-timeout-secs", type=int, metavar="SECONDS", help="as --grace")
    group.add_argument("--log-verbose", type=int, default=0, metavar="LEVEL")
    group.add_argument("--id", metavar="NAME", help="as --name")
    group.add_argument(
        "--trace-config",
        type=_setting,
        action="append",
        default=[],
        metavar="[MODE,]NAME=VALUE",
        help="file, rate and level of triton, url of opentelemetry",
    )
    for one in ("http", "grpc"):
        group.add_argument(
            f"--{one}-header-forward-pattern", metavar="PATTERN", help="as --forward-headers"
        )
    for one in _REFUSED:
        group.add_argument(f"--{one}", action=_Refused, nargs="?", default=SUPPRESS, help=SUPPRESS)
    for one in _WITHOUT_EFFECT:
        what = "taken, and without effect"
        group.add_argument(f"--{one}", action=_Ignored, nargs="?", default=SUPPRESS, help=what)


class _Refused(Action):
    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,  # noqa: ARG002
        values: object,
        option_string: str | None = None,
    ) -> None:
        name = (option_string or "").removeprefix("--")
        if str(values).lower() in ("false", "0", "off", "no"):
            return
        parser.error(f"--{name} is not served: {_REFUSED[name]}")


class _Ignored(Action):
    def __call__(
        self,
        parser: ArgumentParser,  # noqa: ARG002
        namespace: Namespace,
        values: object,  # noqa: ARG002
        option_string: str | None = None,
    ) -> None:
        namespace.ignored = [*getattr(namespace, "ignored", []), option_string]


def adopt(arguments: Namespace, console: Console) -> None:
    """Turn what a tritonserver is told into what this server is told."""
    if not arguments.model_repository:
        if not arguments.targets:
            raise UsageError("what is served is not said", "name a file, or --model-repository DIR")
        return
    if arguments.targets:
        raise UsageError("--model-repository is in the place of FILE: give one of them")
    for one in arguments.model_repository:
        if Path(one).exists() and not Path(one).is_dir():
            raise UsageError(
                f"`{one}` is a file, and --model-repository is a folder of models",
                f"`headrace run {one}` serves a plan or a source",
            )
        if not Path(one).is_dir():
            raise UsageError(f"there is no folder `{one}`")
    if arguments.versions or arguments.canary or arguments.shadow:
        raise UsageError("which versions are served is said by `version_policy` in a config.pbtxt")
    ignored = [*getattr(arguments, "ignored", []), *_unheeded(arguments)]
    for option in ignored if arguments.place is None else ():  # one of several is told with all
        console.say(f"{option} has no effect here")
    arguments.targets = list(arguments.model_repository)
    arguments.control = arguments.model_control_mode or arguments.control
    arguments.load += _loaded(arguments)
    arguments.grace = arguments.exit_timeout_secs or arguments.grace
    arguments.name = arguments.id or arguments.name
    if arguments.log_verbose > 0:
        arguments.log_level = "info"
    _adopt_tracing(arguments)
    _adopt_headers(arguments)
    hosts = {
        host
        for one in ("http", "grpc", "metrics")
        if (host := getattr(arguments, f"{one}_address")) is not None
    }
    if len(hosts) > 1:
        raise UsageError(f"all ports are on one address, not on {' and '.join(sorted(hosts))}")
    arguments.host = next(iter(hosts), arguments.host)
    for one in ("http", "grpc", "metrics"):
        if not getattr(arguments, f"allow_{one}"):
            setattr(arguments, f"{one}_port", None)


def _unheeded(arguments: Namespace) -> list[str]:
    """Return the settings that are written and do nothing, of options that do something."""
    backends = [one for one in arguments.backend_config if _name_of(one) not in _BACKENDS]
    traces = [one for one, _ in arguments.trace_config if one in ("count", "log-frequency")]
    found = [f"--backend-config={one}" for one in backends]
    return [*found, *(f"--trace-config {one}" for one in traces)]


def _name_of(setting: str) -> str:
    return setting.rpartition(",")[2].partition("=")[0]


def _loaded(arguments: Namespace) -> list[str]:
    """Return the models that are to be loaded: `*` alone stands for all that there are."""
    names: list[str] = arguments.load_model
    if "*" not in names:
        return names
    if len(names) > 1:
        raise UsageError("--load-model=* is all models", "leave the others out")
    folders = (one for root in arguments.model_repository for one in Path(root).iterdir())
    return sorted({one.name for one in folders if one.is_dir() and not one.name.startswith(".")})


def _adopt_tracing(arguments: Namespace) -> None:
    """Read `triton,file=FILE`, `rate=1000`, `opentelemetry,url=URL`; the last of each counts."""
    said = dict(arguments.trace_config)
    if said.get("level", "").upper() == "OFF":
        return
    if "file" in said:
        arguments.trace_file = Path(said["file"])
    if "url" in said:
        arguments.otel = said["url"]
    if "rate" in said:
        if not said["rate"].isdigit() or int(said["rate"]) == 0:
            raise UsageError(f"--trace-config: one of `{said['rate']}` requests cannot be traced")
        arguments.trace_rate = 1 / int(said["rate"])


def _adopt_headers(arguments: Namespace) -> None:
    patterns = {
        pattern
        for one in ("http", "grpc")
        if (pattern := getattr(arguments, f"{one}_header_forward_pattern")) is not None
    }
    if len(patterns) > 1:
        raise UsageError("headers are forwarded by one pattern over both protocols")
    for pattern in patterns:
        from ..runtime.protocols.forwarding import read_pattern

        try:
            arguments.forward_headers = read_pattern(pattern)
        except ValueError as error:
            raise UsageError(str(error)) from None


def finder(arguments: Namespace, console: Console) -> "Callable[..., Apps]":
    """Return what looks which models there are; it takes a folder of others in place of them."""
    folders = tuple(Path(one) for one in arguments.targets)
    options = _options(arguments)
    told: set[str] = set()
    from ..triton.own_completion import OwnCompletions

    own = OwnCompletions()

    def warn(found: "Sequence[Diagnostic]") -> None:
        new = [one for one in found if str(one) not in told]
        told.update(map(str, new))
        if new:
            console.mistakes(new)

    def find(over: "Path | None" = None) -> "Apps":
        from ..triton.serving import find

        return find(folders, options, warn, own, over)

    return find


def configure(arguments: Namespace, find: "Callable[..., Apps]") -> "Configure":
    """Return what finds a model as a caller wants it loaded."""
    from ..triton.overlay import configuring

    return configuring(tuple(Path(one) for one in arguments.targets), find)


def _options(arguments: Namespace) -> "Options":
    from ..triton.serving import Options
    from ..triton.translate.resources import Available
    from ..triton.translate.schedule import Serving

    sizes = [*arguments.cache_config]
    if arguments.response_cache_byte_size is not None:
        sizes.append(arguments.response_cache_byte_size)
    counted = arguments.rate_limit != "off"
    there = [Available(*one) for one in arguments.rate_limit_resource]
    if arguments.rate_limit_resource and not counted:
        raise UsageError("--rate-limit-resource goes with --rate-limit=execution_count")
    defaults, in_process = _backends(arguments.backend_config)
    return Options(
        defaults,
        Serving(max(sizes, default=None), tuple(there) if counted else None, in_process),
        arguments.model_config_name,
        completes=not (arguments.strict_model_config or arguments.disable_auto_complete_config),
    )


def _backends(given: Sequence[str]) -> "tuple[Defaults, bool]":
    """Read what matters here of `--backend-config`; the second of what is returned says that Python
    models are in the server's process."""
    from ..triton.complete import Defaults

    found, in_process = Defaults(), False
    for one in given:
        backend, comma, setting = one.rpartition(",")
        name, equals, value = setting.partition("=")
        if not equals or (comma and not backend):
            raise UsageError(f"`{one}` is no BACKEND,NAME=VALUE")
        if name == "default-max-batch-size":
            if not value.isdigit():
                raise UsageError(f"`{one}`: `{value}` is no number of rows")
            found = replace(found, max_batch_size=int(value))
        if name == "in-process":
            if backend != "python":
                raise UsageError(f"`{one}`: only `python` has processes", "python,in-process=true")
            try:
                in_process = _flag(value)
            except ArgumentTypeError as error:
                raise UsageError(f"`{one}`: {error}") from None
    return found, in_process


def _flag(text: str) -> bool:
    if text.lower() in ("true", "1", "on", "yes"):
        return True
    if text.lower() in ("false", "0", "off", "no"):
        return False
    raise ArgumentTypeError(f"`{text}` is neither true nor false")


def _setting(text: str) -> tuple[str, str]:
    """Read `NAME=VALUE`, or with the mode that it is of in front."""
    mode, comma, setting = text.rpartition(",")
    name, equals, value = setting.partition("=")
    known = {"": ("mode", "file", "rate", "level", "count", "log-frequency", "url")}
    known |= dict.fromkeys(("triton", "opentelemetry"), known[""])
    if not equals or (comma and not mode) or name not in known.get(mode, ()):
        raise ArgumentTypeError(f"`{text}` is no setting of tracing")
    return name, value


def _cache(text: str) -> int:
    name, _, setting = text.partition(",")
    key, _, value = setting.partition("=")
    if name != "local" or key != "size" or not value.isdigit() or int(value) == 0:
        raise ArgumentTypeError(f"`{text}` is no local,size=BYTES; other caches are not served")
    return int(value)


def _resource(text: str) -> tuple[str, int, int | None]:
    name, *rest = text.split(":")
    if not name or len(rest) not in (1, 2) or not all(one.isdigit() for one in rest):
        raise ArgumentTypeError(f"`{text}` is no NAME:COUNT or NAME:COUNT:DEVICE")
    return name, int(rest[0]), int(rest[1]) if rest[1:] else None
