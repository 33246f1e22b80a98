"""The table of docs/backends.md: what each backend holds to, tried here and now.

python -m tests.runtime.backends.table [NAMES] [--write]

With `--write` the rows of what is installed here take the place of those in the page; those of
others stay as they were tried elsewhere.
"""

import platform
import re
import sys
import tempfile
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from headrace.dsl.types import DType
from tests.runtime.backends.checks import CHECKS, dtype
from tests.runtime.backends.makers import Maker, Servers, makers

_HEAD = "| backend | library | holds to | dtypes |"
PAGE = Path(__file__).parents[3] / "docs" / "backends.md"


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
    _try_dtypes(maker)
    return f"| `{maker.name}` | {version} | {', '.join(held) or held_to(maker)} | {dtypes(maker)} |"


def held_to(maker: Maker) -> str:
    """Return what is said of a backend that holds to all that is tried of it."""
    return f"all {len(CHECKS) - (maker.junk is None)}"


def dtypes(maker: Maker) -> str:
    """Return what is said of a backend's dtypes."""
    if len(maker.lacks) == len(DType):
        return "as the others of its library"
    lacking = [one.value for one in DType if one in maker.lacks]
    return f"all but {', '.join(lacking)}" if lacking else "all"


def written(page: str, rows: Mapping[str, str], when: str) -> str:
    """Return the page with these rows in its table."""
    front, head, table = page.rpartition(_HEAD)
    front = re.sub(r"Tried on [0-9-]+ with Python [0-9.]+", f"Tried on {when}", front)
    lines = [
        rows.get(line.split("`")[1], line) if line.startswith("| `") else line
        for line in table.split("\n")
    ]
    return front + head + "\n".join(lines)


def documented() -> dict[str, tuple[str, str]]:
    """Return the rows of the page: what each backend holds to, and its dtypes."""
    _, _, table = PAGE.read_text().rpartition(_HEAD)
    rows = re.findall(r"(?m)^\| `([a-z ]+)` \| [^|]* \| ([^|]*) \| ([^|]*) \|$", table)
    return {name: (held, kinds) for name, held, kinds in rows}


def _version(library: str) -> str:
    for name in (library, f"{library}-cpu"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    raise AssertionError(f"{library} has no version")


def _try_dtypes(maker: Maker) -> None:
    if len(maker.lacks) == len(DType):
        return
    for one in DType:
        if one not in maker.lacks and one in maker.tries:
            with tempfile.TemporaryDirectory() as folder:
                dtype(maker, Path(folder), one)


def main() -> None:
    warnings.simplefilter("ignore")
    servers = Servers()
    only = {one for one in sys.argv[1:] if not one.startswith("-")}
    rows: dict[str, str] = {}
    when = f"{datetime.now(UTC):%Y-%m-%d} with Python {platform.python_version()}"
    print(f"Tried on {when} on {platform.machine()}.\n")
    for maker in makers(servers):
        if (only and maker.name.split()[0] not in only) or maker.missing() is not None:
            continue
        rows[maker.name] = row(maker)
        print(rows[maker.name], flush=True)
    servers.stack.close()
    if "--write" in sys.argv:
        PAGE.write_text(written(PAGE.read_text(), rows, when))


if __name__ == "__main__":
    main()
