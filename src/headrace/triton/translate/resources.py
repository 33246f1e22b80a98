"""What instances take while they run (`rate_limiter`): of what all models of a server share."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...dsl.diagnostic import Diagnostic
from ..config import Message
from ..subject import Subject

_CODE, _NAMES = "HR613", "use letters, digits and `_`"
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Available:
    """That there is so much of a resource, on one device alone where it is said."""

    name: str
    count: int
    device: int | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """What an instance takes, of what each device has unless it is `everywhere` the same; where it
    is written."""

    name: str
    count: int
    device: int
    everywhere: bool
    place: Place

    @property
    def written(self) -> str:
        """What it is called in a source: processors count as the first device."""
        own = self.device and not self.everywhere
        return f"{self.name}__device{self.device}" if own else self.name


def takes(config: Message) -> Iterator[Taken]:
    """Yield what instances take, each time that one says so."""
    for number, group in enumerate(config.instance_group):
        device = group.gpus[0] if group.gpus else 0
        for at, one in enumerate(group.rate_limiter.resources):
            place = ("instance_group", number, "rate_limiter", "resources", at)
            yield Taken(one.name, one.count, device, getattr(one, "global"), place)


def most(config: Message) -> dict[str, int]:
    """Return what an instance takes while it runs, by names in a source: the most that one does."""
    taken: dict[str, int] = {}
    for one in takes(config):
        taken[one.written] = max(taken.get(one.written, 0), one.count)
    return taken


def priority(config: Message) -> int:
    """Return how seldom instances run beside those of other models that take the same."""
    return max([1, *(group.rate_limiter.priority for group in config.instance_group)])


def totals(config: Message, there: Sequence[Available]) -> Mapping[str, int]:
    """Return how much there is of what a model takes, by names in a source, where that is said."""
    return {
        one.written: count for one in takes(config) if (count := _count(one, there)) is not None
    }


def _count(taken: Taken, there: Sequence[Available]) -> int | None:
    """Return how much there is, None where it is as much as one takes that takes most. Where
    anything is said of resources there is nothing of the others."""
    if not there:
        return None
    by_device: dict[int | None, int] = {}
    for one in there:
        if one.name == taken.name:
            by_device[one.device] = min(one.count, by_device.get(one.device, one.count))
    counted = [
        count
        for device, count in by_device.items()
        if taken.everywhere or device in (None, taken.device)
    ]
    return max(counted, default=0)


def find_scarce(subject: Subject, there: Sequence[Available]) -> Iterator[Diagnostic]:
    """Yield a mistake for what there is less of than an instance takes, and for what instances of
    one model do not agree on."""
    for one in takes(subject.config):
        if not one.name.isidentifier():
            message = f"`{one.name}` cannot be a name here"
            yield subject.error(_CODE, message, *one.place, "name", help=_NAMES)
        count = _count(one, there)
        if count is not None and one.count > count:
            message = f"an instance takes {one.count} `{one.name}`, and there is {count or 'none'}"
            help = f"start the server with `--rate-limit-resource={one.name}:{one.count}`"
            yield subject.error(_CODE, message, *one.place, help=help)
    groups = subject.config.instance_group
    for number, group in enumerate(groups):
        if max(1, group.rate_limiter.priority) != max(1, groups[0].rate_limiter.priority):
            message = "instances of one model are of several priorities"
            place = ("instance_group", number, "rate_limiter")
            yield subject.error(_CODE, message, *place, help="write the same in each group")


def find_clashes(subjects: Iterable[Subject]) -> Iterator[Diagnostic]:
    """Yield a mistake for each resource that one model has on each device, another only once."""
    known: dict[str, tuple[Subject, Taken]] = {}
    for subject in subjects:
        for one in takes(subject.config):
            other, before = known.setdefault(one.name, (subject, one))
            if before.everywhere != one.everywhere:
                message = f"`{one.name}` is `global` for one of `{other.name}` and `{subject.name}`"
                help = "write `global: true` for both, or for none"
                yield subject.error(_CODE, message, *one.place, help=help)
