"""Places in the source as a plan keeps them: by a file name that does not tell who compiled it."""

import os
from pathlib import Path

from ..dsl.source import Span
from .plan import Place


def place_of(span: Span, directory: Path) -> Place:
    """Return where a span is, with the text of its line; files are named from `directory`."""
    source = span.source
    name = source.name
    if source.path is not None:
        name = Path(os.path.relpath(source.path, directory)).as_posix()
    line, column = source.position(span.start)
    return Place(name, line, column, source.line(line))
