"""Steps to cards, frames and wires: what pictures of graphs and of plans have in common.

Values go by keys of the caller's. What makes a value is a card, or the text of a literal: from
literals nothing flows.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ...dsl.types import Type
from .scene import Card, Frame, Item, Look, Wire

Origin: TypeAlias = Card | str
LONGEST = 48  # characters of a line on a card
_UNSAID = ("none", "<")  # literals left out, and long ones of which only the type is known


@dataclass(frozen=True, slots=True)
class Part:
    """A region of a step. `draw` gives its cards and frames, and is called once."""

    heading: str
    params: Mapping[Hashable, str]  # keys to what stands on their wires
    draw: Callable[[], list[Item]]
    results: Sequence[Hashable]


@dataclass(frozen=True, slots=True)
class Words:
    """How a step with regions is called, where it begins and where it ends."""

    title: str
    begin: str
    end: str
    details: str
    decides: bool  # whether a region runs for some rows only


@dataclass(slots=True)
class Sketch:
    """Collects wires while cards are made; several values between two cards are one wire."""

    _origin: dict[Hashable, Origin] = field(default_factory=dict[Hashable, Origin])
    _texts: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    _wires: dict[tuple[Card, Card], dict[str, None]] = field(
        default_factory=dict[tuple[Card, Card], "dict[str, None]"]
    )

    def literal(self, key: Hashable, text: str) -> None:
        """Note that a value is a literal."""
        self._origin[key] = text

    def alias(self, key: Hashable, other: Hashable) -> None:
        """Note that `key` is `other` in another block."""
        self._origin[key] = self._origin[other]
        if other in self._texts:
            self._texts[key] = self._texts[other]

    def card(self, card: Card, inputs: Iterable[Hashable], outputs: Mapping[Hashable, str]) -> Card:
        """Return the card of a step, its literals on it, with wires for what flows into it."""
        keys = list(inputs)
        found = (self._origin[key] for key in keys)
        literals = [one for one in found if isinstance(one, str) and not one.startswith(_UNSAID)]
        if literals:
            card = replace(card, lines=(shortened(", ".join(literals)), *card.lines))
        for key in keys:
            self._flow(key, card)
        self._made(card, outputs)
        return card

    def control(
        self,
        words: Words,
        inputs: Sequence[Hashable],
        outputs: Mapping[Hashable, str],
        types: Sequence[Type],
        parts: Sequence[Part],
    ) -> Frame:
        """Return the frame of a step with regions: its begin, the regions, what they give."""
        begin = self.card(Card(Look.ENTER, words.begin, details=words.details), inputs, {})
        lines = (types_of(types),) if types else ()
        end = Card(Look.LEAVE, words.end, lines, details=words.details)
        inside: list[Item] = []
        for part in parts:
            self._made(begin, part.params)
            items = part.draw()
            ends = [self._origin[key] for key in part.results]
            if not items:
                nothing = self.card(Card(Look.PLAIN, "nothing to do"), part.results, {})
                items, ends = [nothing], [nothing]
            if words.decides:
                self._wires.setdefault((begin, first_card(items)), {})
            for one in ends if outputs else ():
                self._wire(one, end, "")
            inside += items if len(parts) == 1 else [Frame(part.heading, tuple(items))]
        if outputs:
            self._made(end, outputs)
            inside.append(end)
        return Frame(words.title, (begin, *inside), details=words.details)

    def wires(self) -> tuple[Wire, ...]:
        return tuple(Wire(*ends, tuple(texts)) for ends, texts in self._wires.items())

    def _made(self, card: Card, outputs: Mapping[Hashable, str]) -> None:
        self._origin.update(dict.fromkeys(outputs, card))
        self._texts.update(outputs)

    def _flow(self, key: Hashable, target: Card) -> None:
        self._wire(self._origin[key], target, self._texts.get(key, ""))

    def _wire(self, source: Origin, target: Card, text: str) -> None:
        if isinstance(source, Card):
            self._wires.setdefault((source, target), {})[text] = None


def first_card(items: Sequence[Item]) -> Card:
    """Return what runs first of cards and frames."""
    first = items[0]
    return first if isinstance(first, Card) else first_card(first.items)


def types_of(types: Iterable[Type]) -> str:
    return shortened(", ".join(map(str, types)))


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def wrapped(names: Sequence[str]) -> tuple[str, ...]:
    """Return names joined by `+`, in as many lines as they need."""
    lines = [names[0]]
    for name in names[1:]:
        if len(lines[-1]) + len(name) + 3 <= LONGEST:
            lines[-1] += f" + {name}"
        else:
            lines.append(f"+ {name}")
    return tuple(map(shortened, lines))
