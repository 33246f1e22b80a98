"""What lies in the folder of a model, which may be a link, and have links to folders in it."""

from collections.abc import Iterator
from pathlib import Path


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder and of those in it, sorted; a link to a folder that it is in
    ends there. Raises OSError."""
    return sorted(_files(folder, frozenset()))


def _files(folder: Path, around: frozenset[Path]) -> Iterator[Path]:
    here = folder.resolve()
    if here in around:
        return
    for one in folder.iterdir():
        if one.is_dir():
            yield from _files(one, around | {here})
        elif one.is_file():
            yield one
