"""Extension: what a model's plan looks like, and what each of its stages does at this moment.

Counts are of one version since it was loaded, and only grow; who asks twice has a rate. What is of
this moment says so: rows that wait, requests under way, the times of the latest executions.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ....compiler.pictures.plan_scene import plan_scene
from ....compiler.pictures.scene import Card, Frame, Item, Look, Scene
from ....compiler.plan_walk import copies_of, segments_of
from ...access import Access, Caller
from ...metrics import PipelineCounts, StageCounts
from ...repository.figures import Loaded
from ...repository.route import Served
from ...repository.state import State
from ...service import Service
from ..models import Model, unknown_model
from ..operation import Arguments, Operation, of_model, text, told

NAMES = ("headrace_plan", "headrace_stages")

_STAGES = (Look.OP, Look.MODEL, Look.FUNCTION)


def _plan(service: Service, asked: Arguments, _: Caller) -> Any:  # Any: JSON
    model = _served(service, asked).model
    scene = plan_scene(model.name, model.plan, [model.name], None)
    return _identity(service, model) | _drawn(scene)


def _figures(service: Service, asked: Arguments, _: Caller) -> Any:  # Any: JSON
    served = _served(service, asked)
    return told(service.loaded(served), partial(_told, service, served.model))


def _told(service: Service, model: Model, loaded: Loaded) -> Any:  # Any: JSON
    counted = loaded.snapshot
    pipeline = counted.pipeline(model.name)
    names = _stages_of(model)
    return _identity(service, model) | {
        "seconds": round(service.now() - loaded.since, 3),
        "requests": _requests(pipeline),
        "stages": [
            _stage(name, [one for one in counted.stages if one.name == name], pipeline)
            for name in names
        ],
    }


def _served(service: Service, asked: Arguments) -> Served:
    name, version = text(asked, "name"), text(asked, "version")
    route = service.repository.routes.get(name)
    found = None if route is None else route.known(version)
    if found is None:
        raise unknown_model(name, version)
    return found


def _identity(service: Service, model: Model) -> dict[str, Any]:  # Any: JSON
    """Say which plan this is; of one that was loaded by its caller the hash is not known."""
    hashes = [
        entry.hash
        for entry in service.repository.index()
        if entry.pipeline == model.name
        and str(entry.version) == model.version
        and entry.state in (State.READY, State.DRAINING)
    ]
    return {"name": model.name, "version": model.version, "hash": hashes[-1] if hashes else ""}


def _stages_of(model: Model) -> tuple[str, ...]:
    """Return the names of the stages that the pipeline runs, in the order of the plan."""
    body, used = model.pipeline.body, set(segments_of(model.pipeline.body))
    names = [one.name for index, one in enumerate(model.plan.segments) if index in used]
    names += [f"to {device}" for device in copies_of(body)]
    return tuple(dict.fromkeys(names))


def _requests(counts: PipelineCounts) -> Any:  # Any: JSON
    return {
        "succeeded": counts.successes,
        "inferences": counts.inferences,
        "failed": counts.failures,
        "duration_ns": _ns(counts.duration_seconds),
        "queue_ns": _ns(counts.queue_seconds),
        "waiting": counts.pending,
        "in_flight": counts.in_flight,
        "fallbacks": [
            {"try": place, "reason": reason, "rows": rows}
            for (place, reason), rows in counts.fallbacks.items()
        ],
    }


def _stage(name: str, parts: Sequence[StageCounts], pipeline: PipelineCounts) -> Any:  # Any: JSON
    """Say what a stage has done; those of one name are added up."""
    sizes: dict[str, int] = {}
    for part in parts:
        for size, count in part.sizes.items():
            sizes[str(size)] = sizes.get(str(size), 0) + count
    return {
        "name": name,
        "executions": sum(part.executions for part in parts),
        "rows": sum(part.rows for part in parts),
        "compute_ns": _ns(sum(part.compute_seconds for part in parts)),
        "queue_ns": _ns(sum(part.queue_seconds for part in parts)),
        "waiting": sum(part.waiting for part in parts),
        "batch_sizes": sizes,
        "latest": _latest([seconds for part in parts for seconds in part.recent]),
        "cache_hits": sum(part.cache_hits for part in parts),
        "failed": {
            code: count for (stage, code), count in pipeline.failed_at.items() if stage == name
        },
    }


def _latest(seconds: list[float]) -> Any:  # Any: JSON
    """Return the median and the 95th percentile of the latest executions, None where none was."""
    seconds.sort()

    def rank(share: float) -> int | None:
        return _ns(seconds[math.ceil(share * len(seconds)) - 1]) if seconds else None

    return {"executions": len(seconds), "p50_ns": rank(0.5), "p95_ns": rank(0.95)}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _drawn(scene: Scene) -> dict[str, Any]:  # Any: JSON
    """Return a picture without positions: cards with numbers in nested frames, and wires between
    them."""
    numbers = {card: number for number, card in enumerate(_cards(scene.frames))}
    return {
        "frames": [_item(frame, numbers) for frame in scene.frames],
        "wires": [
            {
                "source": numbers[wire.source],
                "target": numbers[wire.target],
                "texts": [one for one in wire.texts if one],
            }
            for wire in scene.wires
        ],
    }


def _item(item: Item, numbers: Mapping[Card, int]) -> Any:  # Any: JSON
    shown = {"title": item.title, "lines": list(item.lines), "details": item.details}
    if isinstance(item, Frame):
        return shown | {"items": [_item(one, numbers) for one in item.items]}
    return shown | {
        "card": numbers[item],
        "look": item.look.value,
        "device": item.device,
        "batches": item.batches,
        "stage": _stage_of(item),
    }


def _stage_of(card: Card) -> str | None:
    """Return whose figures a card shows."""
    if card.look is Look.COPY:
        return f"to {card.device}"
    return card.title if card.look in _STAGES else None


def _cards(items: Iterable[Item]) -> Iterable[Card]:
    for item in items:
        if isinstance(item, Card):
            yield item
        else:
            yield from _cards(item.items)


OPERATIONS = (
    Operation(
        "",
        Access.READ,
        "A model's plan: its steps in nested frames, and what flows between them",
        of_model("GET", "/plan"),
        _plan,
    ),
    Operation(
        "",
        Access.READ,
        "What each stage of a model has done since it was loaded, and does at this moment",
        of_model("GET", "/stages"),
        _figures,
    ),
)
