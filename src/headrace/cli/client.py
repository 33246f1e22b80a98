"""`headrace client`: a Python module with a typed method for each pipeline."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import _files, _reaching
from .command import Command, Exit, RunFailure, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler.plan import PipelinePlan


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="FILE|ADDRESS", help="a .plan or .pipe file, or grpc://host:port"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to; default: to the standard output"
    )
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds, of a source")
    _reaching.add_arguments(parser)


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..stubs.write import write_stub

    pipelines, version = (
        _served(arguments) if "://" in arguments.source else _planned(arguments, console)
    )
    output = None if arguments.output is None else Path(arguments.output)
    name = Path(arguments.source).stem if output is None else output.stem
    if output is None and "://" in arguments.source:
        name = "client"
    source = arguments.source if "://" in arguments.source else Path(arguments.source).name
    text = write_stub(pipelines, source, version, name)
    if output is None:
        console.print(text.removesuffix("\n"))
        return Exit.GOOD
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"`{output}` cannot be written: {error.strerror}") from error
    count = len(pipelines)
    console.say(f"{output}: {count} {'pipeline' if count == 1 else 'pipelines'} of {source}")
    return Exit.GOOD


def _planned(arguments: Namespace, console: Console) -> "tuple[Sequence[PipelinePlan], str]":
    from ..compiler.plan_file import plan_hash

    _reaching.refuse(arguments)
    plan = _files.plan_of(arguments.source, arguments.schedule, console)
    return plan.pipelines, f"sha256 {plan_hash(plan)}"


def _served(arguments: Namespace) -> "tuple[Sequence[PipelinePlan], str]":
    if arguments.schedule is not None:
        raise UsageError("a server has its schedule; --schedule is for sources")
    with _reaching.reach(arguments.source, 10.0, arguments) as client:
        served = [client[name] for name in sorted(client.pipelines())]
        if not served:
            raise RunFailure(f"{arguments.source} has no pipeline ready")
        versions = ", ".join(f"{one.__name__} {one.served or '?'}" for one in served)
    return [one.plan for one in served], f"versions {versions}"


COMMAND = Command(
    "client",
    "write a typed Python module for calling a plan or a server",
    "Writes a class with a method for each pipeline: its inputs and results with their types, for\n"
    "clients and apps alike. The same plan gives the same bytes. Where the pipelines of a server\n"
    "are others by then, the class refuses it.",
    _arguments,
    _run,
)
