"""What sequences ask of stages: that each finds again what it has left, and has a row of its own
there with `strategy = direct`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic, Label
from ..dsl.source import Span
from .graph import StageSettings
from .lanes import lanes_for
from .policies import Sequencing
from .schedule_service import Stage

MOST_LANES: Final = 16
"""Each is compiled for itself, and takes memory for what stands in it alone."""


def refuse_with_places(
    written: Sequence[ast.Setting],
    settings: Sequence[tuple[str, StageSettings]],
    stages: Mapping[str, Stage],
    sequencing: Sequencing | None,
) -> list[Diagnostic]:
    """Report what would part a sequence from its row: batches that do not hold all places, and for
    models that may keep something row by row, objects of which each run takes one, and results
    that are not asked of it again."""
    slots = sequencing.slots if sequencing is not None else None
    found = dict(settings)
    return [
        mistake
        for one in written
        if slots is not None and one.key.text in found
        for mistake in _of_stage(one, found[one.key.text], stages[one.key.text], slots)
    ]


def refuse_spread(
    written: Sequence[ast.Setting], settings: Sequence[tuple[str, StageSettings]], *, kept: bool
) -> list[Diagnostic]:
    """Report stages on several devices where what a sequence has left is on one (`kept`), or whose
    numbers of devices make too many lanes."""
    spread = {name: len(one.spread) for name, one in settings if one.spread}
    count = lanes_for([*spread.values()])
    if not kept and count <= MOST_LANES:
        return []
    message = (
        "of a pipeline `per sequence` a stage has its instances on one device"
        if kept
        else f"the numbers of devices of its stages make {count} lanes, and at most {MOST_LANES}"
        " are laid out"
    )
    label = "a sequence would find what it left on another" if kept else "too many"
    help = "give those of one device" if kept else "give all stages as many devices"
    return [
        Diagnostic("HR406", message, Label(_span(one, "instances"), label), help=help)
        for one in written
        if one.key.text in spread
    ]


def _of_stage(
    written: ast.Setting, settings: StageSettings, stage: Stage, slots: int
) -> Iterator[Diagnostic]:
    batching = settings.batching
    if batching is None:
        return
    if batching.maximum < slots:
        message = f"`max` is {batching.maximum}, and a batch has the {slots} rows of `slots`"
        label = Label(_span(written, "batch", "max"), "not all sequences would have a row")
        yield Diagnostic("HR406", message, label, help=f"write `max = {slots}`")
    if not (stage.is_model and stage.is_python):
        return
    if settings.instances is not None and settings.instances > 1:
        message = f"`{stage.name}` has {settings.instances} instances with `strategy = direct`"
        label = Label(_span(written, "instances"), "a sequence would find one or the other")
        yield Diagnostic("HR406", message, label, help="write `instances = 1`")
    if settings.service.cache is not None:
        message = (
            f"`{stage.name}` has a `cache` with `strategy = direct`, which is for models that keep "
            "something themselves"
        )
        label = Label(_span(written, "cache"), "it would not be told of each request")
        yield Diagnostic("HR403", message, label, help="leave out `cache`")


def _span(written: ast.Setting, *path: str) -> Span:
    found = written
    for key in path:
        found = next(one for one in found.settings or () if one.key.text == key)
    return found.span
