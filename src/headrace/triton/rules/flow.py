"""The way of tensors through an ensemble: each is made once, before it is read, and is read."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic, Label
from ..ensemble import Tensor, tensors
from ..subject import Subject, meant

_MADE, _READ = "HR623", "HR624"


def check(subject: Subject) -> Iterator[Diagnostic]:
    if not subject.is_ensemble:
        return
    found = tensors(subject)
    for tensor in found.values():
        yield from _made(subject, tensor, found)
        yield from _read(subject, tensor)
    yield from _circles(subject, found)


def _made(subject: Subject, tensor: Tensor, found: dict[str, Tensor]) -> Iterator[Diagnostic]:
    if not tensor.makers:
        names = [one.name for one in found.values() if one.makers]
        reader = tensor.readers[0]
        yield subject.error(
            _MADE,
            f"nothing makes `{tensor.name}`",
            *reader.path,
            said=f"read as {reader.said}" if reader.step is not None else "an output",
            help=meant(tensor.name, names, "there are"),
        )
    for other in tensor.makers[1:]:
        first = tensor.makers[0]
        yield subject.error(
            _MADE,
            f"`{tensor.name}` is made twice",
            *other.path,
            said=f"by {other.said}" if other.step is not None else "",
            others=(Label(subject.place(*first.path), "first here"),),
            help="give one of them a name of its own",
        )


def _read(subject: Subject, tensor: Tensor) -> Iterator[Diagnostic]:
    if tensor.readers:
        return
    maker = tensor.makers[0]
    if maker.step is None:
        message, help = f"the input `{tensor.name}` goes to no step", "leave it out of `input`"
    else:
        message = f"nothing reads `{tensor.name}`"
        help = f"leave out this entry, or write `{tensor.name}` among the outputs"
    yield subject.error(_READ, message, *maker.path, help=help)


def _circles(subject: Subject, found: dict[str, Tensor]) -> Iterator[Diagnostic]:
    """Find steps that wait for each other."""
    count = len(subject.config.ensemble_scheduling.step)
    before: dict[int, set[int]] = {i: set() for i in range(count)}
    for tensor in found.values():
        makers = {end.step for end in tensor.makers if end.step is not None}
        for reader in tensor.readers:
            if reader.step is not None:
                before[reader.step] |= makers
    left = set(before)
    while ready := {step for step in left if not before[step] & left}:
        left -= ready
    # Only those on a circle, not those behind one.
    while behind := {one for one in left if not any(one in before[other] for other in left)}:
        left -= behind
    if left:
        steps = sorted(left)
        places = [
            Label(subject.place("ensemble_scheduling", "step", i, "model_name"), "and this one")
            for i in steps[1:]
        ]
        yield subject.error(
            _MADE,
            "steps that wait for each other"
            if len(steps) > 1
            else "a step that waits for its own output",
            "ensemble_scheduling",
            "step",
            steps[0],
            "model_name",
            others=places,
        )
