"""What a command is: a name, its arguments, and a function that runs it."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from .console import Console


class Exit(IntEnum):
    """What a shell is told."""

    GOOD = 0
    MISTAKES = 1  # in a source, a plan or the values given
    USAGE = 2
    FAILED = 3  # at run time


class UsageError(Exception):
    """The command was called wrongly; `help` says what was probably meant."""

    def __init__(self, message: str, help: str | None = None) -> None:
        self.message, self.help = message, help
        super().__init__(message)


class RunFailure(Exception):
    """What was asked for could not be done, and nothing that was written is to blame."""

    def __init__(self, message: str, help: str | None = None) -> None:
        self.message, self.help = message, help
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `summary` is its line in the list of commands, `text` what is said beside it
    in its own help. `run` imports what it needs itself, so that no command pays for another."""

    name: str
    summary: str
    text: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, Console], Exit]
