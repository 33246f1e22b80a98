"""`headrace check`: the mistakes of sources, without models, without running anything; and those of
repositories of Triton models.

With `--batch` models are run: what they give in batches is compared with what they give alone.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from ..dsl.diagnostic import CompileError, Diagnostic, Severity
from . import _files, _table, _values
from .command import Command, Exit, UsageError
from .console import Console


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="file or folder")
    parser.add_argument(
        "--format",
        choices=("full", "short", "json"),
        default="full",
        help="full: with the source; short: file:line:col: code message; json",
    )
    parser.add_argument(
        "--model-config-name",
        metavar="NAME",
        help="of a Triton repository: check `configs/NAME.pbtxt` where a model has it",
    )
    parser.add_argument(
        "--batch",
        action="store_true",
        help="run the models of one file, and compare rows alone with rows in batches and padded",
    )
    parser.add_argument(
        "--sample",
        action="append",
        default=[],
        metavar="name=value",
        help="an input to compare with, as for `infer`; may be repeated; only with --batch",
    )


def _run(arguments: Namespace, console: Console) -> Exit:
    if arguments.batch:
        return _compare(arguments, console)
    if arguments.sample:
        raise UsageError("--sample is what `--batch` compares with")
    folders = [path for path in map(Path, arguments.paths) if _files.is_repository(path)]
    others = [text for text in arguments.paths if Path(text) not in folders]
    with_sources = [str(path) for path in folders if any(path.glob("*.pipe"))]
    found: list[Diagnostic] = []
    checked: list[str] = []
    if others or with_sources:
        paths = _files.sources([*others, *with_sources])
        found += _sources(paths)
        checked.append(count(len(paths), "file"))
    if folders:
        models, mistakes = _repository(folders, arguments.model_config_name)
        found += mistakes
        checked.append(count(models, "model"))
    elif arguments.model_config_name is not None:
        raise UsageError("--model-config-name is for repositories of Triton models")
    console.diagnostics(found, arguments.format)
    errors = sum(one.severity is Severity.ERROR for one in found)
    said = [count(errors, "mistake")] if errors else ["no mistakes"]
    if len(found) > errors:
        said.append(count(len(found) - errors, "warning"))
    console.say(f"{' and '.join(checked)} checked: {', '.join(said)}")
    return Exit.MISTAKES if errors else Exit.GOOD


def _repository(
    folders: Sequence[Path], config_name: str | None
) -> tuple[int, tuple[Diagnostic, ...]]:
    """Return how many models there are in repositories, and their mistakes."""
    from ..triton import check, repository

    try:
        found = repository.read(folders, config_name)
    except OSError as error:
        raise UsageError(f"`{error.filename}` cannot be read: {error.strerror}") from error
    return len(found.models), check.check(found)


def _sources(paths: Sequence[Path]) -> list[Diagnostic]:
    """Return the mistakes of sources, those of a file that several use once."""
    from ..compiler import check

    found: list[Diagnostic] = []
    seen: set[tuple[object, ...]] = set()
    for path in paths:
        try:
            diagnostics = check(_files.read(path))
        except CompileError as error:  # not UTF-8
            diagnostics = error.diagnostics
        for diagnostic in diagnostics:
            # A file that several use is checked with each of them.
            span = diagnostic.primary.span
            origin = span.source.path
            place = origin.resolve() if origin is not None else span.source.name
            key = (place, span.start, span.end, diagnostic.code, diagnostic.message)
            if key not in seen:
                seen.add(key)
                found.append(diagnostic)
    return found


def _compare(arguments: Namespace, console: Console) -> Exit:
    """Say which models give other results in a batch, or filled up, than alone."""
    from ..compiler import compile_as_written
    from ..runtime.check_batch import CheckConfig, check_batch
    from ._samples import samples

    if len(arguments.paths) != 1:
        raise UsageError("--batch takes one file")
    plan = compile_as_written(_files.read(_files.find(arguments.paths[0], _files.SOURCE)))
    given = samples(plan, _values.split(arguments.sample)) if arguments.sample else {}
    if not given:
        size = CheckConfig().size
        console.say(f"without --sample, inputs are made up: sizes that are only named are {size}")
    with console.apart(), console.progress("compare") as progress:
        found = check_batch(plan, given, None, progress)
    table = _table.as_table(
        {
            "model": [one.model for one in found],
            "declares": [one.declares for one in found],
            "rows": [one.rows for one in found],
            "difference": [_figure(one.difference) for one in found],
            "first row": [one.first or "-" for one in found],
            "holds": [_VERDICTS[one.holds] + f" {one.reason}".rstrip() for one in found],
        }
    )
    console.print(console.bold(table.heading))
    for line in table.lines:
        console.print(line)
    broken = sum(one.holds is False for one in found)
    compared = sum(one.holds is not None for one in found)
    end = (
        "all hold" if not broken else f"{broken} of them {'does' if broken == 1 else 'do'} not hold"
    )
    console.say(f"{count(compared, 'declaration')} compared: {end}")
    return Exit.MISTAKES if broken else Exit.GOOD


_VERDICTS = {True: "yes", False: "no:", None: "not compared:"}


def _figure(difference: float | None) -> str:
    return "-" if difference is None else f"{difference:.3g}"


def count(number: int, what: str) -> str:
    """Return `1 file`, `2 files`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


COMMAND = Command(
    "check",
    "find mistakes in .pipe files and Triton repositories",
    "Finds wrong names, types, shapes and schedules, all at once. Model files may be absent where "
    "signatures\nare declared. A folder stands for all .pipe files in and below it, or for all\n"
    "models of a Triton repository, where it has a `*/config.pbtxt`; several are checked as one.\n"
    "With --batch the models of one file are run: do they give the same in batches as alone?",
    _arguments,
    _run,
)
