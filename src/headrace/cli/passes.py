"""`headrace passes`: what the compiler does to a graph, in order."""

import inspect
from argparse import ArgumentParser, Namespace

from .command import Command, Exit
from .console import Console


def _arguments(parser: ArgumentParser) -> None:
    del parser  # it takes none


def _run(arguments: Namespace, console: Console) -> Exit:
    del arguments
    from ..compiler.optimize import load_passes

    passes = load_passes()
    names = max(len(one.name) for one in passes)
    phases = max(len(one.phase.name) for one in passes)
    for one in passes:
        module = inspect.getmodule(one.run)
        about = (inspect.getdoc(module) or "").partition("\n")[0] if module is not None else ""
        console.print(f"{one.name:{names}}  {one.phase.name.lower():{phases}}  {about}".rstrip())
    return Exit.GOOD


COMMAND = Command(
    "passes",
    "list the compiler's passes in order",
    "One line a pass: its name, its phase and what it does.",
    _arguments,
    _run,
)
