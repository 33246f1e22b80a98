"""What `headrace run` writes of the requests that it serves: traces and log lines."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from .command import UsageError
from .console import Console

if TYPE_CHECKING:
    from ..runtime.observe.observer import Observer, Sink


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise ArgumentTypeError(f"`{text}` is no share from 0 to 1")
    return share


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--trace",
        choices=("requests",),
        help="record the requests that ask for it, by the header or parameter headrace-trace",
    )
    parser.add_argument(
        "--trace-rate",
        type=_share,
        metavar="SHARE",
        help="record this part of all requests; default: all, or with --trace none",
    )
    parser.add_argument(
        "--trace-file", metavar="FILE.json", type=Path, help="write traces for ui.perfetto.dev"
    )
    parser.add_argument(
        "--otel",
        metavar="URL",
        help="send traces to a collector, as in http://127.0.0.1:4318/v1/traces",
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="default: text"
    )
    parser.add_argument(
        "--log-level",
        choices=("error", "warning", "info"),
        default="warning",
        help="info: a line for every request that fails; default: warning, those that failed here",
    )


def say_in_lines(given: Namespace, console: Console) -> None:
    """Let what the command says have the form of the log, where that is not for people."""
    from ..runtime.observe.log import json_line

    if given.log_format == "json":
        console.say_as(json_line)


def log(given: Namespace) -> AbstractContextManager[None]:
    """Let the log go to the standard error meanwhile, in the form that is asked for."""
    from ..runtime.observe.log import lines

    return lines(given.log_format, given.log_level)


def observer(given: Namespace) -> "Observer | None":
    """Return what records requests, None where nothing is to be; raises UsageError."""
    asked = given.trace is not None or given.trace_rate is not None
    if given.trace_file is None and given.otel is None:
        if asked:
            raise UsageError(
                "traces go nowhere", "add `--trace-file FILE.json`, or `--otel http://...`"
            )
        return None
    from ..runtime.observe.observer import Observer, Sampling

    rate = given.trace_rate
    if rate is None:
        rate = 0.0 if given.trace else 1.0
    sinks: list[Sink] = []
    if given.otel is not None:
        sinks.append(_spans(given.otel))
    if given.trace_file is not None:
        sinks.append(_file(given.trace_file))
    return Observer(sinks, Sampling(rate, given.trace is not None, given.otel is not None))


def _file(path: Path) -> "Sink":
    from ..runtime.observe.perfetto import TraceFile

    try:
        return TraceFile(path)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error


def _spans(url: str) -> "Sink":
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"`{url}` is no address", "write `http://host:4318/v1/traces`")
    try:
        from ..runtime.observe import otel
    except ImportError as error:
        raise UsageError("--otel wants OpenTelemetry", "pip install 'headrace[otel]'") from error
    return otel.Spans(otel.provider_of(otel.over_http(url)))
