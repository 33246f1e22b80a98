"""What a picture shows: cards (a step each) in nested frames, and wires along which values flow."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Look(Enum):
    """What a card stands for; `svg.py` says how each looks."""

    INPUT = "input"
    OUTPUT = "output"
    OP = "op"
    MODEL = "model"
    FUNCTION = "function"
    COPY = "copy"
    CHECK = "check"
    ENTER = "enter"  # where values enter a region, or a condition is looked at
    LEAVE = "leave"  # where what regions give comes together
    PLAIN = "plain"  # stands for nothing that runs


@dataclass(frozen=True, slots=True, eq=False)
class Card:
    """`lines` stand small below the title; `details` are shown to who asks for them."""

    look: Look
    title: str
    lines: tuple[str, ...] = ()
    device: str = ""
    batches: bool = False  # rows of several requests meet here
    details: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A box around cards and frames: a pipeline, or a region of control flow."""

    title: str
    items: "tuple[Item, ...]"
    lines: tuple[str, ...] = ()
    details: str = ""


Item: TypeAlias = Card | Frame


@dataclass(frozen=True, slots=True)
class Wire:
    """Values that flow from one card to another; `texts` name them, none where none flow and the
    first only decides whether the second runs."""

    source: Card
    target: Card
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture without positions. Cards and frames stand in the order in which they run."""

    title: str
    frames: tuple[Frame, ...]
    wires: tuple[Wire, ...]
