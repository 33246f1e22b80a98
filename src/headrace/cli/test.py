"""`headrace test`: the `test` blocks of programs."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..dsl.diagnostic import CompileError
from . import _files
from .check import count
from .command import Command, Exit
from .console import Console

if TYPE_CHECKING:
    from ..testing import TestResult


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="file or folder")


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..testing import run_tests

    passed, failed, broken = 0, 0, 0
    for path in _files.sources(arguments.paths):
        try:
            with console.apart():
                for result in run_tests(_files.read(path)):
                    _show(path, result, console)
                    passed, failed = passed + (not result.failures), failed + bool(result.failures)
        except CompileError as error:
            console.mistakes(error.diagnostics)
            broken += 1
    parts = [f"{count(passed, 'test')} passed"] if passed or failed else []
    parts += [f"{failed} failed"] if failed else []
    parts += [f"mistakes in {count(broken, 'file')}"] if broken else []
    console.say(", ".join(parts) or "no tests")
    return Exit.MISTAKES if failed or broken else Exit.GOOD


def _show(path: Path, result: "TestResult", console: Console) -> None:
    outcome = "failed" if result.failures else "passed"
    console.print(
        f"{console.bold(outcome)}  {path}: {result.test.title.value} "
        f"({result.seconds * 1e3:.0f} ms)"
    )
    console.diagnostics(result.failures)
    console.flush()


COMMAND = Command(
    "test",
    "run the test blocks of .pipe files",
    "Stubbed models need no file. A failed expectation shows what was found.",
    _arguments,
    _run,
)
