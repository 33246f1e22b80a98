"""Something that is wrong, and its cure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence each; `help` is what to do, "" where that is said."""

    message: str
    help: str = ""
