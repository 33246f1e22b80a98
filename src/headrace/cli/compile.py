"""`headrace compile`: a source to a plan file."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from . import _files
from .check import count
from .command import Command, Exit, UsageError
from .console import Console


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE.pipe")
    parser.add_argument("-o", "--output", metavar="FILE.plan", help="default: beside the source")
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds")


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..compiler import plan_file

    source = _files.find(arguments.source, _files.SOURCE)
    target = Path(arguments.output or source.with_suffix(_files.PLAN))
    plan = _files.plan_of(arguments.source, arguments.schedule, console)
    try:
        plan_file.write(plan, target)
    except OSError as error:
        raise UsageError(f"`{target}` cannot be written: {error.strerror}") from error
    size = target.stat().st_size
    pipelines = ", ".join(pipeline.name for pipeline in plan.pipelines)
    console.print(
        f"{target}: {pipelines} in {count(len(plan.segments), 'segment')}, "
        f"{size / (1 << 20):.1f} MiB, sha256 {plan_file.plan_hash(target)}"
    )
    return Exit.GOOD


COMMAND = Command(
    "compile",
    "make a plan of a .pipe file",
    "Writes one file with all that is needed to run: the plan, models, assets and Python sources.\n"
    "The same sources give the same bytes.",
    _arguments,
    _run,
)
