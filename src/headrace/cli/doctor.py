"""`headrace doctor`: what this machine has, what each extra would bring, and what is wrong."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from . import _files
from .command import Command, Exit
from .console import Console

if TYPE_CHECKING:
    from ..doctor.extras import Extra
    from ..doctor.machine import Machine


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="a .plan or .pipe to run here")
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds, of a .pipe")


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..doctor.extras import all_extras
    from ..doctor.machine import this_machine
    from ..doctor.needs import lacking
    from ..doctor.problems import problems

    machine, extras = this_machine(), all_extras()
    for line in (*_machine(machine), "", *_extras(extras), ""):
        console.print(line)
    found = problems(machine, extras)
    if arguments.file is not None:
        plan = _files.plan_of(arguments.file, arguments.schedule, console)
        found += lacking(plan, machine, extras)
    for one in found:
        console.print(f"wrong: {one.message}")
        if one.help:
            console.print(f"  help: {one.help}")
    if not found:
        console.print("nothing is wrong")
    return Exit.FAILED if found else Exit.GOOD


def _machine(machine: "Machine") -> Iterator[str]:
    yield f"processor  {machine.processor}, {machine.machine}, {machine.cores} cores"
    yield f"memory     {machine.memory / (1 << 30):.1f} GiB"
    if machine.board:
        yield f"board      {machine.board}"
    for index, gpu in enumerate(machine.gpus):
        driver = f"driver of CUDA {gpu.driver // 1000}.{gpu.driver % 1000 // 10}"
        yield f"gpu({index})     {gpu.name}, sm_{gpu.sm}, {driver}"
    if not machine.gpus:
        yield "gpu        none that an NVIDIA driver finds"
    if machine.dla is not None:
        yield f"dla        {machine.dla} cores"
    yield f"system     {machine.system}, Python {machine.python}"


def _extras(extras: "Sequence[Extra]") -> Iterator[str]:
    names = max(len(one.name) for one in extras)
    states = max(len(one.state) for one in extras)
    for one in extras:
        have = [f"{p.name} {p.installed}" for p in one.packages if p.installed]
        lacks = f"without {', '.join(p.name for p in one.missing)}" if one.missing and have else ""
        said = ", ".join((*have, lacks) if lacks else have) or f"pip install 'headrace[{one.name}]'"
        yield f"{one.name:{names}}  {one.state:{states}}  {one.brings}: {said}"


COMMAND = Command(
    "doctor",
    "say what this machine has and what is wrong with it",
    "Prints processor, GPUs and the extras that are installed or would bring more, then what is\n"
    "wrong, each with its cure; of a plan also what it lacks here. Exits with 3 where anything is.",
    _arguments,
    _run,
)
