"""What `headrace run` serves: files and folders as apps, versions and their shares."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from errno import EADDRINUSE
from pathlib import Path
from typing import TYPE_CHECKING

from ..dsl.diagnostic import CompileError, Refusal
from . import _files
from .command import RunFailure, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..runtime.repository.policy import Policy

NO_PIPELINE = "HR339"
"""The code of a source without a pipeline, which in a folder is not an app but part of one."""


@dataclass(frozen=True, slots=True)
class Part:
    """`NAME@VERSION=SHARE`, as given."""

    app: str
    version: int
    share: float


def part(text: str) -> Part:
    """Read `ocr@2=0.1`."""
    name, at, rest = text.partition("@")
    version, equals, share = rest.partition("=")
    try:
        if not (name and at and equals and version.isascii() and version.isdigit()):
            raise ValueError
        read = Part(name, int(version), float(share))
        if not 0.0 < read.share <= 1.0:
            raise ValueError
    except ValueError:
        raise ArgumentTypeError(
            f"`{text}` is no NAME@VERSION=SHARE with a share over 0, up to 1"
        ) from None
    return read


def policy(text: str) -> "tuple[str, Policy]":
    """Read `latest:2`, or `ocr=all`; the name is empty where none is given."""
    from ..runtime.repository.policy import read_policy

    name, _, said = text.rpartition("=")
    try:
        return name, read_policy(said)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--watch", action="store_true", help="load what changes on disk, and go on meanwhile"
    )
    parser.add_argument(
        "--control",
        choices=("none", "poll", "explicit"),
        default="none",
        help="poll: as --watch; explicit: callers may load and unload, and nothing is loaded at "
        "the start but what --load names",
    )
    parser.add_argument(
        "--load", action="append", default=[], metavar="NAME", help="with --control explicit; or *"
    )
    parser.add_argument(
        "--versions",
        action="append",
        default=[],
        type=policy,
        metavar="[NAME=]POLICY",
        help="latest (the default), latest:2, all or specific:1,3",
    )
    parser.add_argument(
        "--canary",
        action="append",
        default=[],
        type=part,
        metavar="NAME@VERSION=SHARE",
        help="give a version that part of the requests that ask for none, as in ocr@2=0.1",
    )
    parser.add_argument(
        "--shadow",
        action="append",
        default=[],
        type=part,
        metavar="NAME@VERSION=SHARE",
        help="show a version copies of that part; its answers are compared and dropped",
    )


def nothing_in(targets: Sequence[str]) -> UsageError:
    """Return what is wrong where there is no plan."""
    return UsageError(
        f"there is no plan in `{'`, `'.join(targets)}`",
        "in a folder lie NAME.plan, NAME.pipe or NAME/VERSION/model.plan",
    )


def not_served(host: str, error: OSError) -> RunFailure:
    """Return what is wrong where a port cannot be had."""
    cure = "`--http-port`, `--grpc-port` and `--metrics-port` take others, 0 a free one"
    help = cure if error.errno == EADDRINUSE else None
    return RunFailure(f"cannot serve on {host}: {error.strerror or error}", help)


def is_folder(target: str) -> bool:
    """Whether a target is a folder of plans."""
    return Path(target).is_dir()


def named(targets: Sequence[str]) -> frozenset[str]:
    """Return the apps that are targets themselves and not found in a folder."""
    return frozenset(Path(one).stem for one in targets if not is_folder(one))


def finder(targets: Sequence[str]) -> Callable[[], Mapping[str, Mapping[int, Path]]]:
    """Return what looks which apps there are; raises UsageError where a target is no plan."""
    files = [_files.find(one, _files.PLAN, _files.SOURCE) for one in targets if not is_folder(one)]
    folders = [Path(one) for one in targets if is_folder(one)]

    def find() -> Mapping[str, Mapping[int, Path]]:
        from ..runtime.repository.folder import BadFolder, scan

        try:
            scanned = [found for folder in folders for found in scan(folder).items()]
        except BadFolder as error:
            raise UsageError(str(error)) from None
        apps: dict[str, dict[int, Path]] = {}
        for app, versions in (
            *((file.stem, {1: file}) for file in files if file.exists()),
            *scanned,
        ):
            known = apps.setdefault(app, {})
            for number, path in versions.items():
                if known.setdefault(number, path) != path:
                    raise UsageError(
                        f"`{known[number]}` and `{path}` are both `{app}` version {number}"
                    )
        return apps

    return find


def check_parts(known: Mapping[str, Mapping[int, object]], arguments: Namespace) -> None:
    """Raise UsageError where an option is about an app or a version that is not there."""
    for option in ("canary", "shadow"):
        parts: list[Part] = getattr(arguments, option)
        for one in parts:
            if one.version not in known.get(one.app, ()):
                raise UsageError(f"--{option}: there is no `{one.app}` version {one.version}")
    for app, _ in arguments.versions:
        if app and app not in known:
            raise UsageError(f"--versions: there is no `{app}`")


def is_part(cause: BaseException) -> bool:
    """Whether a source cannot be served because it is but a part of others."""
    return isinstance(cause, CompileError) and {one.code for one in cause.diagnostics} == {
        NO_PIPELINE
    }


def show(cause: BaseException, console: Console) -> None:
    """Print why a version was not loaded."""
    if isinstance(cause, CompileError):
        console.mistakes(cause.diagnostics)
    elif isinstance(cause, Refusal):
        console.fail(f"error[{cause.code}]", cause.message, cause.help)
    else:
        console.fail("failed", str(cause) or type(cause).__name__)


def watched(targets: Sequence[str]) -> list[Path]:
    """Return the folders in which something may change: with a source lies what it is made of."""
    folders = [Path(one) if is_folder(one) else Path(one).absolute().parent for one in targets]
    return list(dict.fromkeys(folders))
