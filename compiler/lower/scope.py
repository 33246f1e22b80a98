"""The names of a block: each is given a value once, and every use is noted."""

from dataclasses import dataclass

from ...dsl.source import Span
from ...dsl.types import Dim
from .entities import Entity, File
from .operands import Broken, Operand, singles
from .problems import Problems
from .type_expressions import SCALARS, given_twice


@dataclass(frozen=True, slots=True)
class Local:
    """A name with its value; `span` is where it is given, a `parameter` may stay unused."""

    operand: Operand
    span: Span
    parameter: bool = False


class Scope:
    """Names of one block; those of the blocks around it and of the file can be seen.

    `sizes` holds the names of dimensions that types written in the block may use.
    """

    def __init__(self, file: File, around: "Scope | None" = None) -> None:
        self.file = file
        self._around = around
        self._locals: dict[str, Local] = {}
        self._used: set[str] = set()
        self.sizes: dict[str, Dim] = {}

    def size(self, name: str) -> Dim | None:
        """Return what a dimension's name stands for in types that are written here."""
        if name in self.sizes or self._around is None:
            return self.sizes.get(name)
        return self._around.size(name)

    def find(self, name: str) -> "Local | Entity | None":
        """Return what a name stands for, the innermost first, and note the use."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._locals:
                scope._used.add(name)
                return scope._locals[name]
            scope = scope._around
        return self.file.find(name)

    def give(
        self,
        name: str,
        operand: Operand,
        span: Span,
        problems: Problems,
        *,
        parameter: bool = False,
    ) -> None:
        """Give a name its value; a second time in one block is a mistake that shows both."""
        if name in SCALARS:
            problems.error("HR114", f"`{name}` is a type and cannot be the name of a value", span)
        if name in self._locals:
            help = "a name keeps its value: give the new one a name of its own"
            given_twice(name, span, self._locals[name].span, problems, help)
            return
        self._warn_of_hiding(name, span, problems)
        self._locals[name] = Local(operand, span, parameter)

    def close(self, problems: Problems) -> None:
        """Warn of names that nothing has used."""
        for name, local in self._locals.items():
            broken = any(isinstance(single, Broken) for single in singles(local.operand))
            if name not in self._used and not local.parameter and not broken:
                problems.warning(
                    "HR109",
                    f"`{name}` is never used",
                    local.span,
                    help="write `_` for a value that is not wanted",
                )

    @property
    def names(self) -> tuple[str, ...]:
        """All values that can be named here."""
        around = self._around.names if self._around is not None else ()
        return (*self._locals, *around)

    def local(self, name: str) -> Local | None:
        """Return the value of a name without using it, None for a name that is no value."""
        if name in self._locals:
            return self._locals[name]
        return self._around.local(name) if self._around is not None else None

    def _warn_of_hiding(self, name: str, span: Span, problems: Problems) -> None:
        outer = self._around.local(name) if self._around is not None else None
        if outer is not None:
            line = outer.span.line
            problems.warning(
                "HR110",
                f"`{name}` hides the value of that name given in line {line}",
                span,
                help="give it a name of its own; a block cannot change a value outside it",
            )
