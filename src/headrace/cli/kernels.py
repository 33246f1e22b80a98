"""`headrace kernels`: the code that was generated for chains of ops, and code of it for GPUs."""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from . import _files
from .check import count
from .command import Command, Exit, UsageError
from .console import Console


def _architecture(text: str) -> str:
    if not re.fullmatch("sm_[1-9][0-9]*[af]?", text):
        raise ArgumentTypeError(f"`{text}` is no architecture, as sm_87 is")
    return text


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("subject", metavar="FILE", help="a .pipe or .plan file")
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds")
    parser.add_argument("--text", action="store_true", help="print the code as well")
    parser.add_argument(
        "--for",
        dest="architectures",
        action="append",
        type=_architecture,
        default=[],
        metavar="SM",
        help="build for GPUs of an architecture (sm_87, sm_90, sm_110), which need not be here; "
        "may be repeated",
    )
    parser.add_argument("--cuda", type=int, metavar="MAJOR", help="by the NVRTC of this CUDA")
    parser.add_argument("-o", "--output", metavar="FILE.plan", help="the plan with what was built")


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..compiler import plan_file
    from ..runtime.kernels.ahead import kernels_of, with_code

    if bool(arguments.architectures) != bool(arguments.output):
        raise UsageError("`--for` says what to build, and `-o` the plan that is to hold it")
    plan = _files.plan_of(arguments.subject, arguments.schedule, console)
    if arguments.architectures:
        plan = with_code(plan, arguments.architectures, arguments.cuda)
        try:
            plan_file.write(plan, Path(arguments.output))
        except OSError as error:
            message = f"`{arguments.output}` cannot be written: {error.strerror}"
            raise UsageError(message) from error
    found = list(kernels_of(plan))
    for segment, kernel in found:
        images = (f"{one.architecture} {count(len(one.bytes), 'byte')}" for one in kernel.images)
        code = ", ".join(images) or "no code for GPUs"
        console.print(f"{segment.name} · {' + '.join(segment.members)} · {segment.device} · {code}")
        if arguments.text:
            console.print(kernel.text)
    if not found:
        console.say("no chain of ops became a kernel; they do between stages of a device")
    return Exit.GOOD


COMMAND = Command(
    "kernels",
    "list and build the code generated for chains of ops",
    "One line a kernel of a plan. With `--for` its code is built by NVRTC, which needs no GPU,\n"
    "and put into the plan: where that is loaded nothing is compiled.",
    _arguments,
    _run,
)
