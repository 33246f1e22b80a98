"""`headrace explain`: what the compiler made of a program and why, or what a code means."""

import os
import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from ..dsl.nearest import nearest
from . import _engines, _files
from .command import Command, Exit, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler.plan import Plan


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "subject", metavar="FILE|CODE", nargs="?", help="a .pipe or .plan file, or HRnnn"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--stage", metavar="NAME", help="a stage of compilation: graph, a pass, or plan (default)"
    )
    which.add_argument(
        "--why-not", metavar="PASS", help="what a pass or phase declined to do, and why"
    )
    which.add_argument(
        "--diff", nargs=2, metavar=("A", "B"), help="what is different in the second of two"
    )
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds")
    parser.add_argument("--target", metavar="NAME", help="the machine that it is compiled for")
    parser.add_argument("--profile", metavar="FILE", help="figures that decide where rows meet")
    _engines.add_argument(parser, "tell what is in the engines that were built into it")


def _run(arguments: Namespace, console: Console) -> Exit:
    if arguments.diff is not None:
        return _diff(arguments, console)
    if arguments.subject is None:
        raise UsageError("headrace explain: what? a .pipe or .plan file, or a code such as HR203")
    if re.fullmatch(r"(?i:hr)\d+", arguments.subject):
        console.print(_page(arguments.subject.upper()))
        return Exit.GOOD
    from ..compiler.explain import explain, why_not

    profile = _files.profile_of(arguments.profile)
    plan = _files.plan_of(
        arguments.subject, arguments.schedule, console, profile, target=arguments.target
    )
    if arguments.why_not is not None:
        console.print(why_not(plan, arguments.why_not))
    elif arguments.stage is not None:
        console.print(explain(plan, arguments.stage))
    else:
        console.print(explain(plan) + _threads(plan) + _engines.told(plan, arguments))
    return Exit.GOOD


def _threads(plan: "Plan") -> str:
    """Return how a server on this machine divides its cores among the models."""
    from ..runtime.division import divide

    cores = len(os.sched_getaffinity(0))
    shares = divide(plan.segments, cores, cores)
    found = zip(plan.segments, shares, strict=True)
    models = dict.fromkeys((one.name, share) for one, share in found if share)
    width = max((len(name) for name, _ in models), default=0)
    lines = [f"  {name:<{width}}  {share}\n" for name, share in models]
    return "".join([f"served on this machine, with workers {cores}\n", *lines]) if lines else ""


def _diff(arguments: Namespace, console: Console) -> Exit:
    from ..compiler.explain_diff import explain_diff

    if arguments.subject is not None:
        raise UsageError(f"--diff takes two files; what is `{arguments.subject}` for?")
    profile = _files.profile_of(arguments.profile)
    one, other = (
        (name, _files.plan_of(name, arguments.schedule, console, profile))
        for name in arguments.diff
    )
    console.print(explain_diff(*one, *other))
    return Exit.GOOD


def _page(code: str) -> str:
    from ..dsl.pages import codes, page

    try:
        return page(code).text
    except KeyError:
        near = nearest(code, codes())
        help = f"did you mean `{near}`?" if near else None
        raise UsageError(f"there is no code `{code}`", help) from None


COMMAND = Command(
    "explain",
    "show what was compiled and why, or what a code such as HR203 means",
    "Prints the plan, one line a step, with types, devices and batches, and how many threads each\n"
    "model has on this machine; with --stage the graph as it was before and after each pass; with\n"
    "--why-not what a pass left as it was.",
    _arguments,
    _run,
)
