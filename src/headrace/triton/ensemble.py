"""The tensors of an ensemble: who makes each, who reads it, and what each says of its type."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ..dsl.source import Span
from .config import Message
from .subject import Others, Subject

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class End:
    """One side of a tensor: the ensemble's own, or an input or output of a step's model.

    `step` is None for the ensemble's own, `tensor` where the model does not say what it has.
    """

    step: int | None
    model: Subject
    name: str
    tensor: Message | None
    path: Path

    @property
    def said(self) -> str:
        owner = "the ensemble" if self.step is None else f"`{self.model.name}`"
        return f"{owner}'s `{self.name}`"

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes of one item, without a batch; of an ensemble those behind its reshape."""
        if self.tensor is None:
            return ()
        own = self.step is None and self.tensor.HasField("reshape")
        return tuple(self.tensor.reshape.shape if own else self.tensor.dims)

    @property
    def full_dims(self) -> tuple[int, ...]:
        return (-1, *self.dims) if self.model.config.max_batch_size > 0 else self.dims


@dataclass(slots=True)
class Tensor:
    """A tensor between steps, with those who write it (one, if all is well) and read it."""

    name: str
    makers: list[End] = field(default_factory=list[End])
    readers: list[End] = field(default_factory=list[End])

    @property
    def ends(self) -> list[End]:
        return [*self.makers, *self.readers]


@dataclass(frozen=True, slots=True)
class Step:
    """A step whose model is there."""

    number: int
    config: Message
    model: Subject

    @property
    def path(self) -> Path:
        return ("ensemble_scheduling", "step", self.number)


def steps(subject: Subject) -> Iterator[Step]:
    """Yield the steps whose models are known; `steps.py` tells of the others."""
    for i, step in enumerate(subject.config.ensemble_scheduling.step):
        model = subject.others.named(step.model_name)
        if model is not None:
            yield Step(i, step, model)


def is_decoupled(subject: Subject) -> bool:
    """Whether a request has any number of answers; of an ensemble, whether a member's has."""
    members, waiting = {subject.name: subject}, [subject]
    while waiting:
        for step in steps(waiting.pop()):
            if step.model.name not in members:
                members[step.model.name] = step.model
                waiting.append(step.model)
    return any(one.config.model_transaction_policy.decoupled for one in members.values())


def settle_decoupled(others: Others) -> None:
    """Write into the configuration of each ensemble whether its requests have several answers."""
    for one in others:
        if one.is_ensemble:
            one.config.model_transaction_policy.decoupled = is_decoupled(one)


def tensors(subject: Subject) -> dict[str, Tensor]:
    """Return all tensors of an ensemble by name, in the order in which they are met."""
    found: dict[str, Tensor] = {}
    for i, one in enumerate(subject.config.input):
        end = End(None, subject, one.name, one, ("input", i, "name"))
        found.setdefault(one.name, Tensor(one.name)).makers.append(end)
    for i, step in enumerate(subject.config.ensemble_scheduling.step):
        model = subject.others.named(step.model_name) or subject
        known = model if model is not subject else None
        path = ("ensemble_scheduling", "step", i)
        for inner, outer in _in_order(subject, step.input_map, (*path, "input_map")):
            one = _tensor(known, "input", inner)
            end = End(i, model, inner, one, (*path, "input_map", inner, "value"))
            found.setdefault(outer, Tensor(outer)).readers.append(end)
        for inner, outer in _in_order(subject, step.output_map, (*path, "output_map")):
            one = _tensor(known, "output", inner)
            end = End(i, model, inner, one, (*path, "output_map", inner, "value"))
            found.setdefault(outer, Tensor(outer)).makers.append(end)
    for i, one in enumerate(subject.config.output):
        end = End(None, subject, one.name, one, ("output", i, "name"))
        found.setdefault(one.name, Tensor(one.name)).readers.append(end)
    return found


def _in_order(subject: Subject, mapping: Message, path: Path) -> list[tuple[str, str]]:
    """Return the entries of a map as they are written; protobuf keeps no order."""

    def start(entry: tuple[str, str]) -> int:
        span: Span = subject.place(*path, entry[0], "key")
        return span.start

    return sorted(mapping.items(), key=start)


def _tensor(model: Subject | None, side: str, name: str) -> Message | None:
    if model is None:
        return None
    return next((one for one in getattr(model.config, side) if one.name == name), None)
