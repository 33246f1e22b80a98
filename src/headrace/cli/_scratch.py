"""The folder of a server's own files: what it unpacks, and what its processes share, lies there.

Nobody clears up after a process that is killed, nor after one that ends without waiting for what
still runs. So the folder is locked as long as its server is there, and who starts next removes
those that nobody holds.
"""

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Final

_PREFIX: Final = "headrace."
"""Short, as sockets lie there; and no name of a folder that anything else of ours makes."""


@contextmanager
def scratch() -> Generator[Path]:
    """Give a folder that nobody else opens, and remove it; raises OSError where there cannot be
    one. Temporary files of this process lie in it meanwhile."""
    _sweep(Path(tempfile.gettempdir()))
    with ExitStack() as opened:
        folder, descriptor = _made()
        opened.callback(os.close, descriptor)
        opened.callback(rmtree, folder, ignore_errors=True)
        with temporary_in(folder):
            yield folder


@contextmanager
def own(folder: Path | None) -> Generator[Path | None]:
    """Give a process the folder of its own in that of several, anew, or one that it makes: None
    where nothing can be written, which a server need not."""
    with ExitStack() as opened:
        if folder is not None:
            rmtree(folder, ignore_errors=True)  # of the one before
            folder.mkdir()
            opened.enter_context(temporary_in(folder))
        else:
            with suppress(OSError):
                folder = opened.enter_context(scratch())
        yield folder


@contextmanager
def temporary_in(folder: Path) -> Generator[None]:
    """Let temporary files of this process lie in a folder."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _made() -> tuple[Path, int]:
    """Return a new folder, and a descriptor that holds the lock on it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):  # `_sweep` has found it before it was locked
            descriptor = os.open(folder, os.O_RDONLY)
            # also what clears old files away, as systemd does, leaves alone what is locked
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)


def _sweep(where: Path) -> None:
    """Remove what was left by servers that have ended, of the same user."""
    for folder in where.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is another's, or has gone
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
