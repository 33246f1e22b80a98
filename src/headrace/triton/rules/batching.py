"""How requests are gathered and how long they wait: sizes of batches, priorities, queues."""

from collections.abc import Iterator, Sequence

from ...dsl.diagnostic import Diagnostic
from ..config import Message
from ..subject import Subject

_CODE = "HR611"
_DELAY = 1


def check(subject: Subject) -> Iterator[Diagnostic]:
    config = subject.config
    if config.max_batch_size < 0:
        yield subject.error(
            _CODE,
            f"a batch of {config.max_batch_size}",
            "max_batch_size",
            said="0 for a model that takes none",
        )
    if config.HasField("dynamic_batching"):
        batching, path = config.dynamic_batching, ("dynamic_batching",)
        yield from sizes(subject, batching.preferred_batch_size, path)
        yield from _priorities(subject, batching)
        yield from _ordering(subject, batching)


def sizes(subject: Subject, preferred: Sequence[int], path: Sequence[str]) -> Iterator[Diagnostic]:
    """Sizes that are preferred, of batches that there can be."""
    most = subject.config.max_batch_size
    for i, size in enumerate(preferred):
        if size < 1 or size > most:
            yield subject.error(
                _CODE,
                f"a batch of {size} is preferred, but it has 1 to {most} rows"
                if most > 0
                else f"a batch of {size} is preferred of a model that takes none",
                *path,
                "preferred_batch_size",
                i,
                help=None
                if most > 0
                else "write `max_batch_size`, and leave the batch axis out of `dims`",
            )


def _priorities(subject: Subject, batching: Message) -> Iterator[Diagnostic]:
    levels, path = batching.priority_levels, "dynamic_batching"
    if levels == 0:
        return
    if not 1 <= batching.default_priority_level <= levels:
        yield subject.error(
            _CODE,
            f"requests without a priority have {batching.default_priority_level}, of {levels}",
            path,
            "default_priority_level",
            help=f"write `default_priority_level`, from 1 to {levels}; 1 is the highest",
        )
    for level in batching.priority_queue_policy:
        if not 1 <= level <= levels:
            yield subject.error(
                _CODE,
                f"there is no level {level}, but 1 to {levels}",
                path,
                "priority_queue_policy",
                str(level),
            )


def _ordering(subject: Subject, batching: Message) -> Iterator[Diagnostic]:
    """Answers in the order of requests are at odds with requests that overtake."""
    if not batching.preserve_ordering:
        return
    path = "dynamic_batching"
    if batching.priority_levels > 1:
        yield subject.error(
            _CODE,
            "answers in order, though priorities let requests overtake",
            path,
            "preserve_ordering",
            help="leave out `preserve_ordering` or `priority_levels`",
        )
    policies: list[tuple[tuple[str, ...], Message]] = []
    policies.append(((path, "default_queue_policy"), batching.default_queue_policy))
    for level, policy in sorted(batching.priority_queue_policy.items()):
        policies.append(((path, "priority_queue_policy", str(level)), policy))
    for place, policy in policies:
        if policy.timeout_action == _DELAY and policy.default_timeout_microseconds:
            yield subject.error(
                _CODE,
                "answers in order, though DELAY lets others go before a late request",
                *place,
                help="write `timeout_action: REJECT`, or leave out `preserve_ordering`",
            )
