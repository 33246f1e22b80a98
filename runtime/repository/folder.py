"""A folder of plans: which versions of which apps lie there.

```
DIR/ocr.plan                  app ocr, version 1: a plan, or
DIR/ocr.pipe                  its source, where there is no plan beside it
DIR/ocr/3/model.plan          app ocr, version 3; model.pipe likewise
```

Names that begin with a dot are passed over: drafts, and what tools keep.
"""

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...compiler.plan import Plan
from ..protocols.names import is_name
from .version import Candidate

PLAN, SOURCE = ".plan", ".pipe"
_MODEL = "model"


class BadFolder(Exception):
    """What lies in a folder cannot be told apart, or has a name that nobody could ask for."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file that holds a version of an app."""

    app: str
    version: int
    path: Path


def scan(folder: Path) -> Mapping[str, Mapping[int, Path]]:
    """Return the files of a folder by app and version; raises BadFolder."""
    apps: dict[str, dict[int, Path]] = {}
    for found in _found(folder):
        if not is_name(found.app):
            raise BadFolder(f"`{found.path}`: {found.app!a} cannot be a name in a request")
        versions = apps.setdefault(found.app, {})
        other = versions.get(found.version)
        if other is not None:
            raise BadFolder(f"`{other}` and `{found.path}` are both version {found.version}")
        versions[found.version] = found.path
    return apps


def candidates(
    versions: Mapping[int, Path], read: Callable[[Path], Plan]
) -> Mapping[int, Candidate]:
    """Return what could be loaded. A plan's stamp tells whether its file is another; a source has
    none, for what it is made of lies in other files as well."""
    return {
        number: Candidate(partial(read, path), _stamp(path)) for number, path in versions.items()
    }


def _found(folder: Path) -> Iterator[Found]:
    for path in _listed(folder):
        if path.is_dir():
            for inside in _listed(path):
                if inside.is_dir() and inside.name.isascii() and inside.name.isdigit():
                    for file in _models(inside, lambda stem: stem == _MODEL):
                        yield Found(path.name, int(inside.name), file)
    for file in _models(folder, lambda _: True):
        yield Found(file.stem, 1, file)


def _models(folder: Path, wanted: Callable[[str], bool]) -> Iterable[Path]:
    """Return the plans of a folder, and the sources that have no plan beside them."""
    files = [path for path in _listed(folder) if path.is_file() and wanted(path.stem)]
    plans = {path.stem for path in files if path.suffix == PLAN}
    return [
        path
        for path in files
        if path.suffix == PLAN or (path.suffix == SOURCE and path.stem not in plans)
    ]


def _listed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _stamp(path: Path) -> Hashable:
    if path.suffix != PLAN:
        return None
    try:
        known: os.stat_result = path.stat()
    except FileNotFoundError:
        return None
    return str(path), known.st_ino, known.st_size, known.st_mtime_ns
