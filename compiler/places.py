"""Places in the source as a plan keeps them: by a file name that does not tell who compiled it."""

import os
from functools import lru_cache
from pathlib import Path

from ..dsl.source import Span
from .plan import Place


def place_of(span: Span, directory: Path) -> Place:
    """Return where a span is, with the text of its line; files are named from `directory`."""
    source = span.source
    name = source.name
    if source.path is not None:
        name = _relative(source.path, directory)
    line, column = source.position(span.start)
    return Place(name, line, column, source.line(line))


@lru_cache(maxsize=64)
def _relative(path: Path, directory: Path) -> str:
    """Return a path as seen from a directory; asked for each of thousands of stages."""
    return Path(os.path.relpath(path, directory)).as_posix()
