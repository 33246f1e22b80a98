"""`headrace export`: a plan as what another system serves."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from ..dsl.nearest import nearest
from . import _files
from .command import Command, Exit, RunFailure, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..export.target import Target


def _arguments(parser: ArgumentParser) -> None:
    from ..export.target import all_targets

    targets = all_targets()
    listed = "; ".join(f"{one.name}: {one.summary}" for one in targets.values())
    parser.add_argument("target", metavar="TARGET", help=listed)
    parser.add_argument("source", metavar="FILE", help="a .plan or .pipe file")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="a new folder")
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds, of a .pipe")
    for target in targets.values():
        group = parser.add_argument_group(f"options of {target.name}")
        for option in target.options:
            group.add_argument(
                f"--{option.name}",
                dest=f"{target.name}.{option.name}",
                choices=option.accepts or None,
                metavar="|".join(option.accepts) or "VALUE",
                help=f"{option.help} (default: {option.default})",
            )


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..export.target import ExportError, Subject, all_targets

    targets = all_targets()
    target = targets.get(arguments.target)
    if target is None:
        meant = nearest(arguments.target, list(targets))
        help = f"did you mean `{meant}`?" if meant else f"there are {', '.join(targets)}"
        raise UsageError(f"there is no export target `{arguments.target}`", help)
    options = _options(arguments, target)
    folder = Path(arguments.output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"`{folder}` is there already and not empty", "name a new folder")
    plan = _files.plan_of(arguments.source, arguments.schedule, console)
    try:
        made = target.make(Subject(plan, Path(arguments.source).stem, options))
    except ExportError as error:
        raise RunFailure(error.message, error.help) from error
    try:
        _write(made.files, folder)
    except OSError as error:
        raise UsageError(f"`{folder}` cannot be written: {error.strerror}") from error
    for note in made.notes:
        console.print(note)
    console.print(f"{folder}: {len(made.files)} files for {target.name}")
    return Exit.GOOD


def _options(arguments: Namespace, target: "Target") -> dict[str, str]:
    """Return what is said for a target, and its defaults; of another's options none may be."""
    options = target.defaults()
    for word, value in vars(arguments).items():
        owner, _, name = word.partition(".")
        if not name or value is None:
            continue
        if owner != target.name:
            raise UsageError(f"--{name} is an option of the target `{owner}`")
        options[name] = value
    return options


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write all files or none: the folder gets its name when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, content in files.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        draft.chmod(0o755)
        draft.replace(folder)
    finally:
        rmtree(draft, ignore_errors=True)


COMMAND = Command(
    "export",
    "make of a plan what another system serves",
    "Writes a folder: a model repository for a stock tritonserver (`triton`), or what goes to a\n"
    "Jetson board (`jetson`). See docs/export.md.",
    _arguments,
    _run,
)
