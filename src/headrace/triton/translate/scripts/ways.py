"""What two ways through a script leave, joined: a name that each gives another value is chosen.

if top < 0.5:                         top_3, label = if top < 0.5 {
    answer = ask("big", x)                p, l = big(x)
else:                                     chosen(p, l)
    answer = quick                    } else { chosen(top_2, label_2) }
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..draft import Draft
from ..tensors import written
from .values import Answer, Array, Known, Listed, Opaque, Response, Tensor, Value

Frames = list[dict[str, Value]]


def copied(frames: Frames) -> Frames:
    """Return frames whose lists may grow apart; what is one list stays one."""
    lists: dict[int, Listed] = {}

    def copy(value: Value) -> Value:
        if not isinstance(value, Listed):
            return value
        if id(value) not in lists:
            lists[id(value)] = Listed([], value.each, value.fixed)
            lists[id(value)].items = [copy(one) for one in value.items]
        return lists[id(value)]

    return [{name: copy(value) for name, value in frame.items()} for frame in frames]


@dataclass(slots=True)
class Meeting:
    """Two ways that a `condition` decides between; `chosen` are the names of what is either."""

    draft: Draft
    condition: str
    chosen: list[tuple[str, Array, Array]] = field(default_factory=list[tuple[str, Array, Array]])
    _known: dict[tuple[str, str], Array] = field(default_factory=dict[tuple[str, str], Array])

    def frames(self, first: Frames, second: Frames, live: frozenset[str]) -> Frames:
        """Join all frames; of the last one what nobody reads any more is forgotten."""
        found: Frames = []
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            last = number == len(first) - 1
            frame: dict[str, Value] = {}
            for name in [*one, *(name for name in other if name not in one)]:
                read = not last or name in live or isinstance(one.get(name), Listed)
                if not read:
                    frame[name] = Opaque(f"`{name}` is left by one way or the other")
                elif name in one and name in other:
                    frame[name] = self.value(name, one[name], other[name])
                else:
                    frame[name] = Opaque(f"`{name}` is there by one way alone")
            found.append(frame)
        return found

    def value(self, name: str, first: Value, second: Value) -> Value:
        """Join two values that a name has."""
        match first, second:
            case Array(), Array():
                return self._array(name, first, second)
            case Tensor(called), Tensor(other) if called == other:
                return replace(first, array=self._array(called, first.array, second.array))
            case Answer(tensors), Answer(others):
                return self._tensors(name, first, tensors, others)
            case Response(tensors, False), Response(others, False):
                return self._tensors(name, first, tensors, others)
            case Listed(items, each), Listed(others) if len(items) == len(others):
                pairs = zip(items, others, strict=True)
                return Listed([self.value(name, *pair) for pair in pairs], each)
            case Known(True), Known(False):
                return Array(self.condition, "bool", ())
            case Known(False), Known(True):
                return Array(f"not ({self.condition})", "bool", ())
            case _ if first == second:
                return first
            case _:
                return Opaque(f"`{name}` is of another kind by one way than by the other")

    def _tensors(
        self, name: str, whole: Answer | Response, one: Sequence[Tensor], other: Sequence[Tensor]
    ) -> Value:
        by_name: Mapping[str, Tensor] = {each.name: each for each in other}
        if {each.name for each in one} != set(by_name):
            return Opaque(f"`{name}` has other tensors by one way than by the other")
        joined = [self.value(name, each, by_name[each.name]) for each in one]
        kept = tuple(each for each in joined if isinstance(each, Tensor))
        return replace(whole, tensors=kept)

    def _array(self, name: str, first: Array, second: Array) -> Array:
        if first == second:
            return first
        key = first.code, second.code
        if key not in self._known:
            target = self.draft.names.fresh(name)
            dims = first.dims if first.dims == second.dims else _wider(first.dims, second.dims)
            self._known[key] = Array(target, first.dtype, dims)
            self.chosen.append((target, first, second))
        return self._known[key]

    def write(self, first: list[str], second: list[str]) -> None:
        """Write what chooses; `first` and `second` are the lines of both ways."""
        if not self.chosen:
            return
        names = [name for name, _, _ in self.chosen]
        ends = ([one.code for _, one, _ in self.chosen], [one.code for _, _, one in self.chosen])
        if len(names) > 1:
            function = _together(self.draft, self.chosen)
            ends = tuple([f"{function}({', '.join(end)})"] for end in ends)
        ways = ["\n".join(_ended(*way)) for way in zip((first, second), ends, strict=True)]
        self.draft.lines.append(
            f"{', '.join(names)} = if {self.condition} {{\n{ways[0]}\n}} else {{\n{ways[1]}\n}}"
        )


def _ended(lines: list[str], end: list[str]) -> list[str]:
    """Return the lines of a way that end in a value: what is given it last is itself the end."""
    last = lines[-1] if lines else ""
    target, equal, expression = last.partition(" = ")
    if equal and [target] == end:
        return [*lines[:-1], expression]
    return [*lines, *end]


def _wider(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """Return sizes with those open that differ."""
    pairs = zip(first, second, strict=False)
    return tuple(one if one == other else -1 for one, other in pairs)


def _together(draft: Draft, chosen: Sequence[tuple[str, Array, Array]]) -> str:
    """Declare a function that gives what it is given, several values as one; return its name."""
    name = draft.names.fresh("chosen")
    types = ", ".join(
        f"{target}: {written(one.dtype, _wider(one.dims, other.dims))}"
        for target, one, other in chosen
    )
    given = ", ".join(f"{target} = {target}" for target, _, _ in chosen)
    draft.items.append(f"fn {name}({types}) -> ({types}) {{\nreturn {given}\n}}")
    return name
