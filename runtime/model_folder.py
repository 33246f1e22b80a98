"""Models that are folders: a plan has them as archives, unpacked for what reads files."""

import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from .load_error import BAD_MODEL, LoadError


def is_folder(content: bytes) -> bool:
    """Tell whether a plan has a folder here, and not a file."""
    return content.startswith(b"PK\x03\x04")


def folder_name(content: bytes) -> str:
    """Return what a folder in a plan is called, "" where nobody has said it."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            return archive.comment.decode()
    except (zipfile.BadZipFile, UnicodeDecodeError):
        return ""


@contextmanager
def unpacked(content: bytes) -> Generator[Path]:
    """Give the folder of an archive for the time of a `with`; raises LoadError."""
    with TemporaryDirectory(prefix="headrace-") as name:
        folder = Path(name)
        try:
            with zipfile.ZipFile(BytesIO(content)) as archive:
                for entry in archive.infolist():
                    _unpack(archive, entry, folder)
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise LoadError(BAD_MODEL, f"the model's folder cannot be unpacked: {error}") from error
        yield folder


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path) -> None:
    """Write one file; raises ValueError for a name that leads out of the folder, and for what is
    compressed, which may be larger than anyone has said."""
    path = PurePosixPath(entry.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in entry.filename:
        raise ValueError(f"{entry.filename!r} is not inside of it")
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{entry.filename!r} is compressed")
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(archive.read(entry))
