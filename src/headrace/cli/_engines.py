"""`--engines FOLDER`: where engines of TensorRT are kept, and what is told of them."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from .console import Console

if TYPE_CHECKING:
    from ..compiler.plan import Plan


def add_argument(parser: ArgumentParser, what: str) -> None:
    parser.add_argument("--engines", metavar="FOLDER", help=what)


def folder(arguments: Namespace) -> Path | None:
    return None if arguments.engines is None else Path(arguments.engines)


def build(plan: "Plan", arguments: Namespace, console: Console) -> None:
    """Build the engines that a plan wants into the folder that was named, and tell of them."""
    into = folder(arguments)
    if into is None:
        return
    from ..runtime.tensorrt.ahead import build_ahead

    with console.progress("build engines") as progress:
        entries = build_ahead(plan, into, progress)
    for entry in entries:
        console.print(f"{entry.report}\n  {'built' if entry.fresh else 'was there'}")
    if not entries:
        console.say("no stage wants an engine: none has `backend = tensorrt` or `tensorrt_rtx`")


def told(plan: "Plan", arguments: Namespace) -> str:
    """Return what is in the engines of a plan that a folder has."""
    where = folder(arguments)
    if where is None:
        return ""
    from ..runtime.tensorrt.ahead import kept

    lines = [
        f"{entry.report}\n" if entry is not None else f"{segment.name} · not built here yet\n"
        for segment, entry in kept(plan, where)
    ]
    return "".join(["engines\n", *lines]) if lines else ""
