"""`headrace check`: the mistakes of sources, without models, without running anything."""

from argparse import ArgumentParser, Namespace

from ..dsl.diagnostic import CompileError, Diagnostic, Severity
from . import _files
from .command import Command, Exit
from .console import Console


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="file or folder")
    parser.add_argument(
        "--format",
        choices=("full", "short", "json"),
        default="full",
        help="full: with the source; short: file:line:col: code message; json",
    )


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..compiler import check

    paths = _files.sources(arguments.paths)
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
    console.diagnostics(found, arguments.format)
    errors = sum(one.severity is Severity.ERROR for one in found)
    said = [count(errors, "mistake")] if errors else ["no mistakes"]
    if len(found) > errors:
        said.append(count(len(found) - errors, "warning"))
    console.say(f"{count(len(paths), 'file')} checked: {', '.join(said)}")
    return Exit.MISTAKES if errors else Exit.GOOD


def count(number: int, what: str) -> str:
    """Return `1 file`, `2 files`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


COMMAND = Command(
    "check",
    "find mistakes in .pipe files",
    "Finds wrong names, types, shapes and schedules, all at once. Model files may be absent where "
    "signatures\nare declared. A folder stands for all .pipe files in and below it.",
    _arguments,
    _run,
)
