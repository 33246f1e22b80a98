"""The table of docs/backends.md: what each backend holds to, tried here and now.

python -m tests.runtime.backends.table
"""

import sys
import tempfile
import warnings
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from headrace.dsl.types import DType
from tests.runtime.backends.checks import CHECKS, dtype
from tests.runtime.backends.makers import Maker, Servers, makers


def row(maker: Maker) -> str:
    """Return the line of a backend: its library's version, what it holds to, and its dtypes."""
    held: list[str] = []
    for check in CHECKS:
        if check.__name__ == "no_model" and maker.junk is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(maker, Path(folder))
            except Exception as error:
                held.append(f"**{check.__name__} fails**")
                print(f"{maker.name}: {check.__name__}: {error}", file=sys.stderr)
    version = _version(maker.library) if maker.library else "—"
    count = len(CHECKS) - (maker.junk is None)
    result = ", ".join(held) or f"all {count}"
    return f"| `{maker.name}` | {version} | {result} | {_dtypes(maker)} |"


def _version(library: str) -> str:
    for name in (library, f"{library}-cpu"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    raise AssertionError(f"{library} has no version")


def _dtypes(maker: Maker) -> str:
    if len(maker.lacks) == len(DType):
        return "as the others of its library"
    for one in DType:
        if one not in maker.lacks and one in maker.tries:
            with tempfile.TemporaryDirectory() as folder:
                dtype(maker, Path(folder), one)
    lacking = [one.value for one in DType if one in maker.lacks]
    return f"all but {', '.join(lacking)}" if lacking else "all"


def main() -> None:
    warnings.simplefilter("ignore")
    servers = Servers()
    only = set(sys.argv[1:])
    print(f"Tried on {datetime.now(UTC):%Y-%m-%d}, Python {sys.version.split()[0]}, x86-64, CPU.\n")
    print("| backend | library | holds to | dtypes |\n|---|---|---|---|")
    for maker in makers(servers):
        if (not only or maker.name.split()[0] in only) and maker.missing() is None:
            print(row(maker), flush=True)
    servers.stack.close()


if __name__ == "__main__":
    main()
