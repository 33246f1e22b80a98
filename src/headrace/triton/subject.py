"""What a rule is shown: a model with its completed configuration, and the others beside it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..dsl.diagnostic import Diagnostic, Label, Severity
from ..dsl.nearest import nearest
from ..dsl.source import Span
from .config import Message
from .repository import Model


@dataclass(frozen=True, slots=True)
class Subject:
    """A model whose text is good; `config` is completed, places are those of what is written."""

    model: Model
    config: Message
    others: "Others"

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def is_ensemble(self) -> bool:
        return self.config.HasField("ensemble_scheduling")

    @property
    def has_tensors(self) -> bool:
        """Whether it is known what goes in and out; a Python model may say it when it is loaded."""
        return bool(self.config.input or self.config.batch_input) and bool(self.config.output)

    def place(self, *path: str | int) -> Span:
        return self.model.config.place(*path)

    def error(
        self,
        code: str,
        message: str,
        *path: str | int,
        said: str = "",
        others: Sequence[Label] = (),
        notes: Sequence[str] = (),
        help: str | None = None,
    ) -> Diagnostic:
        """Return a mistake at a field."""
        label = Label(self.place(*path), said)
        return Diagnostic(code, message, label, tuple(others), tuple(notes), help)

    def warning(
        self, code: str, message: str, *path: str | int, said: str = "", help: str | None = None
    ) -> Diagnostic:
        """Return what is no mistake, but hardly what was meant."""
        label = Label(self.place(*path), said)
        return Diagnostic(code, message, label, help=help, severity=Severity.WARNING)


@dataclass(slots=True)
class Others:
    """The models of a repository whose texts are good, and the names of those whose are not."""

    subjects: tuple[Subject, ...] = ()
    broken: frozenset[str] = frozenset()
    _indexed: tuple[Subject, ...] = field(default=(), init=False, repr=False, compare=False)
    _by_name: Mapping[str, Subject] = field(
        default_factory=dict[str, Subject], init=False, repr=False, compare=False
    )

    def named(self, name: str) -> Subject | None:
        """Return the first of a name; steps are followed often, and there may be many models."""
        if self._indexed is not self.subjects:
            self._by_name = {one.name: one for one in reversed(self.subjects)}
            self._indexed = self.subjects
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Subject]:
        return iter(self.subjects)


Rule: TypeAlias = Callable[[Subject], Iterator[Diagnostic]]


def meant(name: str, names: Sequence[str], what: str) -> str | None:
    """Return a help with the name that was probably meant, or with those that there are."""
    near = nearest(name, names)
    if near is not None:
        return f"did you mean `{near}`?"
    return f"{what}: {listed(names)}" if names else None


def listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(f"`{one}`" for one in names[:most])
    return shown + (", ..." if len(names) > most else "")


def dims_text(dims: Sequence[int]) -> str:
    return f"[{', '.join(map(str, dims))}]"
