"""What was done to a pipeline and why, as text: made when compiling, kept in the plan.

A plan's explanation has one text for each stage of compilation: `graph` as lowered, then the
graph after each pass by the pass's name, then `plan`. `why_not` says what a pass left as it was.
"""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..dsl.diagnostic import Refusal
from ..dsl.nearest import nearest
from .check_target import models_on
from .deadline_split import deadline_split
from .explain_graph import explain_graph
from .graph import Graph, Kind, Region, Settings, Transfer
from .optimize import load_passes
from .plan import MemoryPlan, Plan
from .plan_text import copies_text, peak_text
from .policy_text import BY_DEFAULT, describe_pipeline, describe_resources, scaled
from .rewrite import walk
from .stage_settings import calls_out
from .target import Target

FIRST, LAST = "graph", "plan"

_SHORT = 3
"""Words of so few letters say nothing of a pass ("of", "in", "and")."""


class ExplainError(Refusal):
    """There is no stage or pass of that name (HR418)."""


def explain(plan: Plan, stage: str = LAST) -> str:
    """Return the text of a stage of compilation; raises ExplainError with the nearest name."""
    texts = dict(plan.explanation)
    if stage not in texts:
        raise _unknown("stage", stage, texts)
    return texts[stage]


def why_not(plan: Plan, name: str) -> str:
    """Return what was declined and why, one line each with its place.

    `name` is a pass, a phase (`simplify`, `fuse`, `place`), or a word of the names of passes
    (`glue`, `merge`, `siblings`); several passes are shown one after the other. Raises
    ExplainError with the nearest name.
    """
    passes = [stage for stage, _ in plan.explanation if stage != FIRST]
    if name in passes:
        return _declined(plan, name) or f"{name} declined nothing\n"
    words = _words(passes)
    if name not in words:
        raise _unknown("pass", name, passes, words)
    return "".join(
        f"{one}\n{textwrap.indent(text, '  ')}"
        if (text := _declined(plan, one))
        else f"{one} declined nothing\n"
        for one in words[name]
    )


def _declined(plan: Plan, name: str) -> str:
    several = len(plan.pipelines) > 1
    return "".join(
        f"{one.place.file}:{one.place.line}: "
        f"{f'{one.pipeline}: ' if several else ''}{one.stage}: {one.reason}\n"
        for one in plan.declined
        if one.by == name
    )


def _words(passes: Sequence[str]) -> dict[str, list[str]]:
    """Return what stands for several passes: their phases, and the words of their names."""
    found: dict[str, list[str]] = {}
    for one in load_passes():
        if one.name in passes:
            found.setdefault(one.phase.name.lower(), []).append(one.name)
    for name in passes:
        for word in name.split("_"):
            if len(word) > _SHORT and name not in found.setdefault(word, []):
                found[word].append(name)
    return found


def explain_plan(
    graph: Graph, memory: Sequence[MemoryPlan], directory: Path, target: Target | None = None
) -> str:
    """Return the last text of a pipeline: its placed graph, how it is served, a line that sums it
    up, how its deadline divides where it was measured, and what it was compiled for."""
    mapped = target is not None and target.unified
    copies = copies_text(crossings_of(graph.body), mapped=mapped)
    parts = [f"segments {len(_segments(graph.body))}", copies]
    parts += [
        f"peak {peak_text(one, alone=len(memory) == 1)}"
        for one in memory
        if one.peak or one.budget is not None
    ]
    unplanned = dict.fromkeys(name for one in memory for name in one.unplanned)
    if unplanned:
        parts.append(f"size known when made: {', '.join(unplanned)}")
    lines = [*_served(graph.settings), " · ".join(parts)]
    split = deadline_split(graph)
    lines += [split] if split is not None else []
    lines += [f"for {target} · models {_models_text(graph)}"] if target is not None else []
    return explain_graph(graph, directory, placed=True) + "".join(f"{line}\n" for line in lines)


def _models_text(graph: Graph) -> str:
    """Return how large the models are on each device, as their files have them."""
    found = [f"{device} {' '.join(scaled(size))}" for device, size in models_on([graph]).items()]
    return ", ".join(found) or "none"


def _served(settings: Settings) -> Iterable[str]:
    """Yield what the schedule says of the pipeline as a whole, and what holds for its stages."""
    said = list(describe_pipeline(settings.queueing, settings.priority, settings.sequencing))
    said += [describe_resources(settings.resources)] if settings.resources else []
    if said:
        yield f"{' · '.join(said)} (schedule {settings.name!r})"
    yield BY_DEFAULT


def crossings_of(region: Region) -> Iterable[tuple[str, str]]:
    """Yield where each copy comes from and goes to, those of inner regions included."""
    for node in walk(region):
        if isinstance(node.kind, Transfer):
            yield node.kind.origin, node.kind.device


def _segments(region: Region) -> set[tuple[Kind, str]]:
    """Return the models and functions that are called, each once."""
    return {(node.kind, node.stage) for node in walk(region) if calls_out(node)}


def _unknown(kind: str, name: str, known: Iterable[str], words: Iterable[str] = ()) -> ExplainError:
    listed = list(known)
    meant = nearest(name, [*listed, *words])
    return ExplainError(
        "HR418",
        f"there is no {kind} `{name}`; there are {', '.join(listed)}",
        f"did you mean `{meant}`?" if meant else None,
    )
