"""Files that any number of processes share: each appears whole, and is made by one of them while
the others wait."""

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path, name: str) -> Generator[None]:
    """Hold a lock of a folder, which the system gives back when a process dies. Raises OSError
    where the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file beside its place and move it there, for all to read; raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(descriptor, 0o644)  # whoever serves may read what another has built
            os.fsync(descriptor)
        return Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
