"""What was built is kept in files: by a key that says all that it depends on.

A file's name ends in the digest of what it holds, so that one that was cut off or altered is
seen, and built again. Files appear whole, and who needs one that another process builds at the
moment waits for it.
"""

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from ..load_error import NO_RUNTIME, LoadError
from ..shared_files import locked, write_whole


@contextmanager
def built(
    folder: Path | None, key: str, suffix: str, build: Callable[[], bytes]
) -> Generator[Path]:
    """Give the file of a key (any text) for the time of a `with`; it is built where it is not in
    the folder, or there is none.

    Raises LoadError where the folder cannot be written, and what `build` raises.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="headrace-kernel-") as own:
            yield _write(Path(own), "kernel", suffix, build())
        return
    yield kept(folder, key, suffix, build)


def kept(folder: Path, key: str, suffix: str, build: Callable[[], bytes]) -> Path:
    """Return the file of a key in a folder, which is built where it is not there."""
    name = sha256(key.encode()).hexdigest()
    try:
        found = _find(folder, name, suffix)
        if found is not None:  # the folder may be one that is only read
            return found
        with locked(folder, name):
            found = _find(folder, name, suffix)  # another may have built it meanwhile
            if found is not None:
                return found
            for damaged in folder.glob(f"{name}-*{suffix}"):
                damaged.unlink()
            return _write(folder, name, suffix, build())
    except OSError as error:
        message = f"`{folder}` keeps no kernels: {error}"
        raise LoadError(NO_RUNTIME, message, "let this user write there") from error


def _find(folder: Path, name: str, suffix: str) -> Path | None:
    for path in folder.glob(f"{name}-*{suffix}"):
        with suppress(FileNotFoundError):  # damaged, and another builds it anew
            if path.stem.partition("-")[2] == sha256(path.read_bytes()).hexdigest():
                return path
    return None


def _write(folder: Path, name: str, suffix: str, content: bytes) -> Path:
    return write_whole(folder / f"{name}-{sha256(content).hexdigest()}{suffix}", content)
