"""`headrace fmt`: sources in their one canonical form."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..dsl.diagnostic import CompileError
from ..dsl.format import format_module
from ..dsl.parse import parse
from ..dsl.source import Source
from . import _files
from .check import count
from .command import Command, Exit, UsageError
from .console import Console


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="*", default=["."], metavar="PATH", help="file or folder; - is stdin"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when a file would change"
    )


def _run(arguments: Namespace, console: Console) -> Exit:
    if "-" in arguments.paths:
        if arguments.paths != ["-"]:
            raise UsageError("`-` stands alone: stdin is formatted to stdout")
        source = Source("<stdin>", sys.stdin.read())
        formatted = format_module(parse(source))
        if not arguments.check:
            console.print(formatted)
        return Exit.MISTAKES if arguments.check and formatted != source.text else Exit.GOOD
    changed: list[Path] = []
    mistakes = False
    for path in _files.sources(arguments.paths):
        try:
            source = _files.read(path)
            formatted = format_module(parse(source))
        except CompileError as error:
            console.mistakes(error.diagnostics)
            mistakes = True
            continue
        if formatted == source.text:
            continue
        changed.append(path)
        if not arguments.check:
            _write(path, formatted)
    for path in changed:
        console.print(str(path))
    done = "would change" if arguments.check else "formatted"
    if changed:
        console.say(f"{count(len(changed), 'file')} {done}")
    return Exit.MISTAKES if mistakes or (changed and arguments.check) else Exit.GOOD


def _write(path: Path, text: str) -> None:
    """Replace a file at once or not at all, and keep its permissions."""
    target = path.resolve()  # a link stays a link
    draft = target.with_name(f".{target.name}.tmp")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.chmod(target.stat().st_mode)
        draft.replace(target)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


COMMAND = Command(
    "fmt",
    "print .pipe files in their one canonical form",
    "Rewrites files in place and names those that changed. Comments are kept.",
    _arguments,
    _run,
)
