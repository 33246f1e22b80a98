"""Files that a source names: where they are, and what their loaders make of them.

A location is a path relative to the source's folder, an absolute path, or
`pkg:package/path/in/package`, which is found where the Python package is installed (the package
is not imported).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

import numpy as np

from ..dsl.nearest import nearest
from ..dsl.types import DType, TensorType
from ..stdlib import npy
from ..stdlib.dtypes import from_numpy
from ..stdlib.op import Literal

PACKAGE_PREFIX = "pkg:"


class Missing(Exception):
    """There is no such file or package; `help` says how to get it, where that is known.

    `package` says that a whole package is missing, `meant` is a location like the mistyped one.
    """

    def __init__(
        self,
        message: str,
        help: str | None = None,
        *,
        package: bool = False,
        meant: str | None = None,
    ) -> None:
        self.message, self.help, self.package, self.meant = message, help, package, meant
        super().__init__(message)


class Unreadable(Exception):
    """The file is there but does not hold what its loader reads; the text says why."""


@dataclass(frozen=True, slots=True)
class Asset:
    """What a loader has read: a literal and its type. `weak` numbers take the declared dtype."""

    literal: Literal
    type: TensorType
    weak: bool = False


def locate(location: str, directory: Path, *, folders: bool = False) -> Path:
    """Return the path of a file, or with `folders` of either; raises Missing."""
    if "://" in location:
        help = "download it, and write where it is"
        raise Missing(f"`{location}` is an address, and files are read from this machine", help)
    if location.startswith(PACKAGE_PREFIX):
        path = _in_package(location.removeprefix(PACKAGE_PREFIX))
    else:
        path = directory / location
    if location and folders and _is(Path.is_dir, path):
        return path
    if not location or _is(Path.is_dir, path):
        raise Missing(
            f"`{location}` is a folder, and a file is wanted" if location else "no file is named"
        )
    if not _is(Path.is_file, path):
        raise _missing(path, location)
    return path


def read_lines(content: bytes) -> Asset:
    """Read UTF-8 text as one string a line; a line end at the end of the file adds none."""
    return _texts(_lines(_text(content)))


def read_npy(content: bytes) -> Asset:
    """Read an array in NumPy's own format; pickled objects are refused."""
    try:
        array = npy.read_npy(content)
    except ValueError as error:
        raise Unreadable(str(error)) from error
    dtype = from_numpy(array.dtype)
    if dtype is None:
        raise Unreadable(f"it holds {array.dtype}, which the language has no dtype for")
    array.flags.writeable = False
    return Asset(array, TensorType(dtype, array.shape))


def read_json(content: bytes) -> Asset:
    """Read a number, string, bool, or nested rows of one of these with equal lengths."""
    try:
        value = cast("object", json.loads(_text(content)))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not JSON: {error}") from error
    shape, leaves = _shape(value)
    kinds = {_leaf_dtype(leaf) for leaf in leaves}
    if kinds == {DType.I64, DType.F32}:
        kinds = {DType.F32}
    dtype = kinds.pop() if len(kinds) == 1 else None
    if dtype is None:
        raise Unreadable("it is not one kind of value (numbers, strings or bools) throughout")
    if dtype is DType.STRING and shape:
        array = np.empty(len(leaves), object)
        array[:] = leaves
        return Asset(array.reshape(shape), TensorType(dtype, shape))
    return Asset(_tuples(value), TensorType(dtype, shape), weak=dtype.is_number)


def read_bytes(content: bytes) -> Asset:
    """Take the file as it is."""
    return Asset(content, TensorType(DType.BYTES))


def metadata_lines(value: str) -> Asset:
    """Read a value of a model's metadata as one string a line."""
    return _texts(_lines(value))


LOADERS: Final[Mapping[str, Callable[[bytes], Asset]]] = MappingProxyType(
    {"lines": read_lines, "npy": read_npy, "json": read_json, "bytes": read_bytes}
)


def _in_package(location: str) -> Path:
    package, slash, inside = location.partition("/")
    if not slash or not package.isidentifier():
        raise Missing(
            f"`pkg:{location}` does not name a file in a package",
            "write `pkg:package/path/in/package`",
        )
    try:
        spec = find_spec(package)  # top-level names only: parents of others would be imported
    except ValueError:  # a module that was not found on a path, such as `__main__`
        spec = None
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    if not places:
        name = package.replace("_", "-")
        raise Missing(
            f"the Python package `{package}` is not installed",
            f"`pip install {name}`",
            package=True,
        )
    found = [Path(place) / inside for place in places]
    return next((path for path in found if _is(Path.is_file, path)), found[0])


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    """Tell whether a path is of a kind; one that is too long, or that may not be seen, is not."""
    try:
        return kind(path)
    except OSError:
        return False


def _missing(path: Path, location: str) -> Missing:
    """Say where a path leaves what there is: a folder that does not exist, or a mistyped name."""
    message = f"there is no file `{location}`"
    if not _is(Path.is_dir, path.parent):
        return Missing(message, f"there is no folder `{Path(location).parent}` either")
    name = nearest(path.name, _files(path.parent))
    if name is None:
        alone = location.startswith(PACKAGE_PREFIX) or Path(location).is_absolute()
        return Missing(message, None if alone else "a path starts at the folder of this source")
    meant = location[: len(location) - len(path.name)] + name
    return Missing(message, f'did you mean `"{meant}"`?', meant=meant)


def _files(folder: Path) -> list[str]:
    """Return the names of the files in a folder; of one that may not be read, none."""
    try:
        return [one.name for one in folder.iterdir() if one.is_file()]
    except OSError:
        return []


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8 text: byte {error.start} is wrong") from error


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _texts(lines: list[str]) -> Asset:
    array = np.empty(len(lines), object)
    array[:] = lines
    array.flags.writeable = False
    return Asset(array, TensorType(DType.STRING, (len(lines),)))


def _shape(value: object) -> tuple[tuple[int, ...], list[object]]:
    """Return the shape of nested rows and what they hold; raises Unreadable for ragged ones."""
    if not isinstance(value, list):
        return (), [value]
    rows = [_shape(item) for item in cast("list[object]", value)]
    if any(shape != rows[0][0] for shape, _ in rows):
        raise Unreadable("its rows are not equally long")
    inner = rows[0][0] if rows else ()
    return (len(rows), *inner), [leaf for _, leaves in rows for leaf in leaves]


def _leaf_dtype(leaf: object) -> DType | None:
    match leaf:
        case bool():
            return DType.BOOL
        case int():
            return DType.I64
        case float():
            return DType.F32
        case str():
            return DType.STRING
        case _:
            return None


def _tuples(value: object) -> Literal:
    if isinstance(value, list):
        return tuple(_tuples(item) for item in cast("list[object]", value))
    return cast("bool | int | float | str", value)  # `_leaf_dtype` has let nothing else through
