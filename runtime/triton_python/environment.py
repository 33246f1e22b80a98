"""Environments of models: `EXECUTION_ENV_PATH` names a folder or an archive with an interpreter."""

import tarfile
from pathlib import Path
from typing import Final

from ..load_error import BAD_MODEL, LoadError

_FOLDER: Final = "$$TRITON_MODEL_DIRECTORY"


def interpreter(path: str, model: Path, unpacked: Path) -> tuple[str, dict[str, str]]:
    """Return the interpreter that a path names, and what its environment needs; an archive is
    unpacked in `unpacked`. Raises LoadError."""
    where = Path(path.replace(_FOLDER, str(model)))
    if not where.exists():
        raise LoadError(
            BAD_MODEL,
            f"there is no execution environment {path}",
            "put it there, or leave out EXECUTION_ENV_PATH where the server's own Python will do",
        )
    if where.is_file():
        try:
            with tarfile.open(where) as archive:
                archive.extractall(unpacked, filter="data")
        except (tarfile.TarError, OSError) as error:
            raise LoadError(
                BAD_MODEL, f"the execution environment {path} cannot be unpacked: {error}"
            ) from error
        where = unpacked
    for name in ("python3", "python"):
        found = where / "bin" / name
        if found.is_file():
            paths = (
                {"LD_LIBRARY_PATH": str(where / "lib")} if (where / "conda-meta").is_dir() else {}
            )
            return str(found), paths
    raise LoadError(
        BAD_MODEL,
        f"the execution environment {path} has no interpreter bin/python3",
        "name a folder or .tar.gz as venv, conda-pack or venv-pack make them",
    )
