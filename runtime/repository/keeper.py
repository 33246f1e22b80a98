"""Keeps a repository as its files are.

A file that is not complete, for it is still being written, is a plan that cannot be read: what was
served before still is, and the next change of the file is another try.
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from ...compiler.plan import Plan
from ..load import Progress
from .folder import candidates
from .repository import Repository
from .state import LoadFailed
from .version import Candidate

Files: TypeAlias = Mapping[str, Mapping[int, Path]]
"""The files of apps, by version."""

Tell: TypeAlias = Callable[[str, LoadFailed | None], None]


class Keeper:
    """`find` looks what is there, `read` makes a plan of a file."""

    def __init__(
        self,
        repository: Repository,
        find: Callable[[], Files],
        read: Callable[[Path], Plan],
    ) -> None:
        self._repository, self._find, self._read = repository, find, read
        self._apps: set[str] = set()
        self._lock = threading.Lock()

    def candidates(self, app: str) -> Mapping[int, Candidate]:
        """Return what could be loaded of an app."""
        return candidates(self._find().get(app, {}), self._read)

    def renew(self, tell: Tell, progress: Progress | None = None) -> None:
        """Load what is new, and let go what is not there any more.

        `tell` hears of every app that has changed or could not. Returns when all is done.
        """
        with self._lock:
            files = self._find()
            for app in sorted({*files, *self._apps}):
                there = candidates(files.get(app, {}), self._read)
                try:
                    changed = self._repository.update(app, there, progress).result()
                except LoadFailed as failure:
                    tell(app, failure)
                else:
                    if changed:
                        tell(app, None)
            self._apps = set(files)
