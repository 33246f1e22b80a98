"""Tells when something in folders has changed, once what changes has come to rest."""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

_LOG = logging.getLogger(__name__)

_REST: Final = 100
"""Milliseconds without a change after which a burst of them is told as one. So often the library
also looks whether it is to stop."""

_MOST: Final = 1600
"""Milliseconds after which it is told although there is no rest."""


class Watch:
    """Watches from construction until `close`. `changed` is called in a thread of its own, with
    the paths, one call after the other; nothing that changes meanwhile is lost."""

    def __init__(self, folders: Sequence[Path], changed: Callable[[frozenset[Path]], None]) -> None:
        """Raises FileNotFoundError where a folder is missing."""
        self._notify, self._changed = _watcher(folders), changed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headrace-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Watch no more; returns when `changed` has."""
        self._stop.set()
        self._thread.join()
        self._notify.close()

    def _watch(self) -> None:
        while not self._stop.is_set():
            seen = self._notify.watch(_MOST, _REST, 0, self._stop)
            if not isinstance(seen, set):
                continue
            try:
                self._changed(frozenset(Path(path) for _, path in seen))
            except Exception:  # the next change is another try
                _LOG.exception("what has changed on disk could not be loaded")


def _watcher(folders: Sequence[Path]) -> "RustNotify":
    # `watchfiles.watch` begins to watch when its first change is asked for, and would miss those
    # between; what it is made of, which is documented as well, begins when it is made.
    from watchfiles._rust_notify import RustNotify

    return RustNotify([str(one) for one in folders], False, False, 300, True, False)
