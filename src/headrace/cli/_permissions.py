"""What `headrace run` lets callers do besides asking: its options, and what they come to."""

import re
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .command import UsageError

if TYPE_CHECKING:
    from ..runtime.access import Policy
    from ..runtime.regions import RegionsConfig
    from ..runtime.repository.repository import Repository
    from ..runtime.server_config import ServerConfig

KINDS = ("control", "shared-memory", "settings")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=KINDS,
        help="let callers on this machine load and unload, register shared memory, change the "
        "settings of the log; those from elsewhere need --tokens",
    )
    parser.add_argument(
        "--allow-load-files",
        action="store_true",
        help="take files that a caller loads, plans or those of a model, where they are no code",
    )
    parser.add_argument(
        "--allow-load-code",
        action="store_true",
        help="take plans that a caller loads whatever they hold: code that runs as the server does",
    )
    parser.add_argument(
        "--page",
        action=BooleanOptionalAction,
        default=True,
        help="serve a page at / to look at what is served, and to try it",
    )
    parser.add_argument(
        "--host-name",
        action="append",
        default=[],
        type=_host_name,
        metavar="NAME",
        help="a name that HTTP callers may reach it by, as behind a proxy; addresses and names "
        "without a dot are known. Off this machine any name is, unless some are given",
    )
    parser.add_argument(
        "--tokens",
        type=Path,
        metavar="FILE",
        help="a line NAME KIND,KIND SECRET for each token; what a token is for takes one",
    )
    parser.add_argument(
        "--shared-memory-prefix",
        default="",
        metavar="TEXT",
        help="clients may only register shared memory whose name begins so",
    )
    parser.add_argument(
        "--forward-headers",
        type=_pattern,
        metavar="PATTERN",
        help="headers whose whole lower-case names match are parameters of a request",
    )
    parser.add_argument(
        "--labels",
        action="append",
        default=[],
        type=_labels,
        metavar="MODEL.OUTPUT=FILE",
        help="the names of an output's classes, one a line",
    )


def policy(arguments: Namespace) -> "Policy":
    """Return who may do what; raises UsageError where it would be anybody's from elsewhere."""
    from ..runtime.access import Access, check_exposure, policy_of, read_tokens

    allowed = [Access(kind) for kind in arguments.allow]
    if arguments.control == "explicit":
        allowed.append(Access.CONTROL)
    try:
        tokens = () if arguments.tokens is None else read_tokens(_text(arguments.tokens))
        found = policy_of(allowed, tokens)
        check_exposure(found, arguments.host)
    except ValueError as error:
        raise UsageError(str(error), "see `--tokens`") from None
    if arguments.allow_load_files and not found.serves(Access.CONTROL):
        raise UsageError("--allow-load-files is for callers who may load: see --control explicit")
    if arguments.shared_memory_prefix and not found.serves(Access.MEMORY):
        raise UsageError("--shared-memory-prefix goes with --allow shared-memory, or such a token")
    if arguments.allow_load_code and not arguments.allow_load_files:
        raise UsageError("--allow-load-code goes with --allow-load-files")
    if arguments.allow_load_code and arguments.model_repository:
        raise UsageError("--allow-load-code is for plans; to a Triton repository code never comes")
    return found


def regions(arguments: Namespace) -> "RegionsConfig":
    """Return which shared memory may be registered, where that is allowed."""
    from ..runtime.regions import RegionsConfig

    return RegionsConfig(prefix=arguments.shared_memory_prefix)


def labels(arguments: Namespace) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the names of classes by model and output."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for model, output, path in arguments.labels:
        lines = _text(path).splitlines()
        found.setdefault(model, {})[output] = tuple(line.strip() for line in lines)
    return found


def check_labels(config: "ServerConfig", repository: "Repository") -> None:
    """Raise UsageError where labels are of what is not served."""
    for model, outputs in config.labels.items():
        route = repository.routes.get(model)
        if route is None or route.main is None:
            raise UsageError(f"--labels: there is no pipeline `{model}`")
        for output in outputs:
            if output not in route.main.model.outputs:
                valid = route.main.model.valid_outputs
                raise UsageError(f"--labels: `{model}` has no output `{output}`, but {valid}")


def _pattern(text: str) -> "re.Pattern[str]":
    from ..runtime.protocols.forwarding import read_pattern

    try:
        return read_pattern(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _host_name(text: str) -> str:
    if not text or re.search(r"[^\w.-]", text):
        raise ArgumentTypeError(f"`{text}` is no name of a host: it has neither port nor path")
    return text


def _labels(text: str) -> tuple[str, str, Path]:
    where, equals, path = text.partition("=")
    model, dot, output = where.rpartition(".")
    if not (model and dot and output and equals and path):
        raise ArgumentTypeError(f"`{text}` is no MODEL.OUTPUT=FILE")
    return model, output, Path(path)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"`{path}` is no text") from None
