"""`headrace graph`: pictures of pipelines and plans."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..dsl.nearest import nearest
from . import _files
from .command import Command, Exit, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler.pictures.scene import Scene

SVG, HTML = ".svg", ".html"


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("subject", metavar="FILE", help="a .pipe or .plan file")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: FILE.svg, beside it")
    parser.add_argument(
        "--stage",
        choices=("plan", "graph"),
        default="plan",
        help="plan: what runs (default); graph: the pipeline as written, of a .pipe file",
    )
    parser.add_argument("--pipeline", metavar="NAME", help="one only; default: all")
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds")
    parser.add_argument("--profile", metavar="FILE", help="times as `compile --measure` wrote them")


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..compiler.pictures.svg import svg

    path = _files.find(arguments.subject, _files.SOURCE, _files.PLAN)
    target = Path(arguments.output or path.with_suffix(SVG))
    if target.suffix not in (SVG, HTML):
        raise UsageError(f"`{target}` ends neither in {SVG} nor in {HTML}")
    scene = _plan(arguments, console) if arguments.stage == "plan" else _graph(arguments, path)
    picture = svg(scene)
    if target.suffix == HTML:
        from ..compiler.pictures.page import page

        picture = page(scene.title, picture).encode()
    try:
        target.write_bytes(picture)
    except OSError as error:
        raise UsageError(f"`{target}` cannot be written: {error.strerror}") from error
    console.print(f"{target}: {', '.join(frame.title for frame in scene.frames)}")
    return Exit.GOOD


def _plan(arguments: Namespace, console: Console) -> "Scene":
    from ..compiler.pictures.plan_scene import plan_scene

    profile = _files.profile_of(arguments.profile)
    decides = profile if arguments.subject.endswith(_files.SOURCE) else None
    plan = _files.plan_of(arguments.subject, arguments.schedule, console, decides)
    names = _chosen([pipeline.name for pipeline in plan.pipelines], arguments.pipeline)
    return plan_scene(Path(arguments.subject).name, plan, names, profile)


def _graph(arguments: Namespace, path: Path) -> "Scene":
    if path.suffix == _files.PLAN:
        raise UsageError(
            f"`{path}` holds what became of its pipelines, not how they were written",
            "draw the `.pipe` file with `--stage graph`, or leave `--stage` out",
        )
    for option in ("schedule", "profile"):
        if getattr(arguments, option) is not None:
            raise UsageError(f"--{option} changes nothing in a pipeline as it is written")
    from ..compiler.front import lowered
    from ..compiler.pictures.graph_scene import graph_scene

    source = _files.read(path)
    graphs = {graph.name: graph for graph in lowered(source)}
    names = _chosen(list(graphs), arguments.pipeline)
    return graph_scene(path.name, [graphs[name] for name in names], source.directory)


def _chosen(names: Sequence[str], wanted: str | None) -> Sequence[str]:
    if wanted is None or wanted in names:
        return names if wanted is None else [wanted]
    near = nearest(wanted, names)
    help = f"did you mean `{near}`?" if near else f"there are {', '.join(names)}"
    raise UsageError(f"there is no pipeline `{wanted}`", help)


COMMAND = Command(
    "graph",
    "draw a plan or a pipeline as .svg or .html",
    "Steps stand in boxes as they are nested, with devices, copies, batches, and times when there "
    "is a\nprofile. The page can be moved and enlarged; neither needs a network to be looked at.",
    _arguments,
    _run,
)
