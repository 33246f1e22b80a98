"""What both ends of a tensor say of it: the same type, sizes that can agree, batches as large."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic, Label
from ..config import data_type_name
from ..ensemble import End, steps, tensors
from ..subject import Subject, dims_text

_TYPES, _SIZES, _BATCHES = "HR625", "HR626", "HR627"


def check(subject: Subject) -> Iterator[Diagnostic]:
    if not subject.is_ensemble:
        return
    for tensor in tensors(subject).values():
        known = [end for end in tensor.ends if end.tensor is not None]
        for other in known[1:]:
            yield from _compare(subject, tensor.name, known[0], other)
    yield from _batches(subject)


def _compare(subject: Subject, name: str, first: End, other: End) -> Iterator[Diagnostic]:
    assert first.tensor is not None
    assert other.tensor is not None
    labels = (Label(subject.place(*first.path), f"{first.said} is {_type(first)}"), *_origin(other))
    if 0 not in (first.tensor.data_type, other.tensor.data_type) and (
        first.tensor.data_type != other.tensor.data_type
    ):
        yield subject.error(
            _TYPES,
            f"`{name}` is {_type(first)} for {first.said}, but {_type(other)} for {other.said}",
            *other.path,
            said=f"{other.said} is {_type(other)}",
            others=labels,
        )
    elif _match(first.full_dims, other.full_dims):
        return
    elif _match(first.dims, other.dims):
        # A single row goes through: a batch axis of 1 is left out or put in on the way.
        plain = [end for end in (first, other) if end.model.config.max_batch_size == 0]
        if subject.config.max_batch_size > 1 and plain:
            yield subject.warning(
                _BATCHES,
                f"batches of more than one row do not go through {plain[0].said}",
                *plain[0].path,
                said=f"`{plain[0].model.name}` takes one item, of {dims_text(plain[0].dims)}",
                help="write `max_batch_size` for it, or the batch axis in its `dims`",
            )
    else:
        yield subject.error(
            _SIZES,
            f"`{name}` is {dims_text(first.full_dims)} for {first.said}, but "
            f"{dims_text(other.full_dims)} for {other.said}",
            *other.path,
            said=f"{other.said} is {_sizes(other)}",
            others=(Label(labels[0].span, f"{first.said} is {_sizes(first)}"), *labels[1:]),
        )


def _origin(end: End) -> tuple[Label, ...]:
    """Point into the configuration of the model that says so."""
    if end.step is None or end.tensor is None:
        return ()
    for side in ("input", "output"):
        for i, one in enumerate(getattr(end.model.config, side)):
            if one is end.tensor or one == end.tensor:
                span = end.model.place(side, i, "name")
                return (Label(span, "declared here"),) if span.end > span.start else ()
    return ()


def _type(end: End) -> str:
    return "" if end.tensor is None else data_type_name(end.tensor.data_type)


def _sizes(end: End) -> str:
    batch = end.model.config.max_batch_size
    return f"{dims_text(end.dims)} in batches" if batch > 0 else dims_text(end.dims)


def _match(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    pairs = zip(left, right, strict=False)
    return len(left) == len(right) and all(a == b or -1 in (a, b) for a, b in pairs)


def _batches(subject: Subject) -> Iterator[Diagnostic]:
    most = subject.config.max_batch_size
    for step in steps(subject):
        limit = step.model.config.max_batch_size
        if 0 < limit < most:
            yield subject.error(
                _BATCHES,
                f"`{subject.name}` takes batches of {most}, but `{step.model.name}` of {limit}",
                *step.path,
                "model_name",
                others=(
                    Label(subject.place("max_batch_size"), "of the ensemble"),
                    Label(step.model.place("max_batch_size"), "of the step's model"),
                ),
                help=f"write `max_batch_size: {limit}` here, or more there",
            )
