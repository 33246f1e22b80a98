"""A source that is being written: its items, and the body of its pipeline."""

import os
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ...dsl.diagnostic import CompileError
from ...runtime.protocols.models import ModelKey
from ..subject import Others, Subject
from .names import Names
from .schedule import Serving, Settings
from .tensors import Tensor

UNSERVED = "HR650"
"""The code of what a tritonserver would do and this server does not."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all models of a repository have in common; sources lie in `folder`."""

    others: Others
    folder: Path
    serving: Serving = field(default_factory=Serving)
    placed: Callable[[Path], Path] = Path  # where a file of the repository will be

    def locate(self, path: Path) -> str:
        """Return how a source names a file."""
        return Path(os.path.relpath(self.placed(path), self.folder)).as_posix()


@dataclass(frozen=True, slots=True)
class Control:
    """A tensor that tells a model where it is in its sequence."""

    tensor: Tensor
    kind: str
    values: tuple[float, float]  # for false and true; nothing of an id


@dataclass(frozen=True, slots=True)
class Kept:
    """A state: what a model is given, and what it gives for the next request."""

    before: Tensor
    after: str
    begin: str  # the expression for what it is at first


@dataclass(frozen=True, slots=True)
class Stage:
    """A model in a source: what it is called there, and in order what it takes and gives."""

    name: str
    subject: Subject
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    controls: tuple[Control, ...] = ()
    states: tuple[Kept, ...] = ()
    inside: dict[str, str] = field(default_factory=dict[str, str])  # the names of inputs in source

    @property
    def batches(self) -> bool:
        return self.subject.config.max_batch_size > 0


@dataclass(slots=True)
class Opened:
    """A block that ends where the pipeline does: the lines in front of it, what stands in it before
    the lines that follow, and what behind."""

    outer: list[str]
    head: str
    first: str
    condition: str
    last: list[str]


@dataclass(slots=True)
class Draft:
    """`sequence` is the model whose sequences the pipeline goes by. `models` says of what is called
    in the source which model it is and in which version, `nested` how often which ensembles are
    parts of it."""

    around: Surroundings
    names: Names = field(default_factory=Names)
    items: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    following: list[str] = field(default_factory=list[str])
    states: list[str] = field(default_factory=list[str])
    settings: Settings = field(default_factory=Settings)
    stages: dict[tuple[str, int], Stage] = field(default_factory=dict[tuple[str, int], Stage])
    files: list[Path] = field(default_factory=list[Path])
    models: dict[str, ModelKey] = field(default_factory=dict[str, ModelKey])
    nested: Counter[ModelKey] = field(default_factory=Counter[ModelKey])
    sequence: Subject | None = None
    stream: bool = False  # a member answers any number of times, and so does the pipeline
    cached: bool = False  # what members give is kept, as the ensemble around them is cached
    whole: bool = False  # the pipeline takes whole requests, their batch axis included
    mixed: bool = False  # so does an ensemble, as it has members that take no batches
    each: bool = False  # what is written is done for each row of a request
    opened: list["Opened"] = field(default_factory=list["Opened"])

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Write lines into a block of their own."""
        outer, self.lines = self.lines, []
        yield
        inner, self.lines = self.lines, outer
        self.lines.append(f"{head} {{\n" + "\n".join(inner) + "\n}")

    def open(self, head: str, first: str, condition: str, last: list[str]) -> None:
        """Write all that follows into a block, where the condition holds."""
        self.opened.append(Opened(self.lines, head, first, condition, last))
        self.lines = []

    def close(self) -> None:
        """End the blocks that are open."""
        for one in reversed(self.opened):
            inner = "\n".join(self.lines)
            parts = [one.first, f"if {one.condition} {{\n{inner}\n}}", *one.last]
            self.lines = [*one.outer, f"{one.head} {{\n" + "\n".join(parts) + "\n}"]
        self.opened.clear()


def refuse(subject: Subject, message: str, *path: str | int, help: str) -> CompileError:
    """Return what to raise of something that is not served."""
    return CompileError([subject.error(UNSERVED, message, *path, help=help)])
