"""Keeps a repository as its files are.

A file that is not complete, for it is still being written, is a plan that cannot be read: what was
served before still is, and the next change of the file is another try.
"""

import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..load import Progress
from .repository import Repository
from .state import LoadFailed
from .version import Candidate

Apps: TypeAlias = Mapping[str, Mapping[int, Candidate]]
"""What could be loaded of each app, by version."""

Tell: TypeAlias = Callable[[str, LoadFailed | None], None]


class Keeper:
    """`find` looks what is there."""

    def __init__(self, repository: Repository, find: Callable[[], Apps]) -> None:
        self._repository, self._find = repository, find
        self._apps: set[str] = set()
        self._lock = threading.Lock()

    def candidates(self, app: str) -> Mapping[int, Candidate]:
        """Return what could be loaded of an app."""
        return self._find().get(app, {})

    def renew(self, tell: Tell, progress: Progress | None = None) -> None:
        """Load what is new, and let go what is not there any more.

        `tell` hears of every app that has changed or could not. Returns when all is done.
        """
        with self._lock:
            found = self._find()
            for app in sorted({*found, *self._apps}):
                there = found.get(app, {})
                try:
                    changed = self._repository.update(app, there, progress).result()
                except LoadFailed as failure:
                    tell(app, failure)
                else:
                    if changed:
                        tell(app, None)
            self._apps = set(found)
