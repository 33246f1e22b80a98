"""What `headrace infer` shows and writes of a request's trace."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .command import UsageError
from .console import Console

if TYPE_CHECKING:
    from ..runtime.observe.trace import Trace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options that ask for a trace."""
    parser.add_argument("--trace", action="store_true", help="show what each stage took")
    parser.add_argument(
        "--trace-file", metavar="FILE.json", type=Path, help="write it for ui.perfetto.dev"
    )
    parser.add_argument(
        "--trace-values",
        metavar="NAME[=FILE.npy]",
        action="append",
        default=[],
        help="show or save a value by its name in the source; * shows all; may be repeated",
    )
    parser.add_argument(
        "--no-fuse", action="store_true", help="of a source: leave stages as written, to see values"
    )


def wanted(given: Namespace) -> bool:
    """Whether a trace is asked for."""
    return bool(given.trace or given.trace_file or given.trace_values)


def show(trace: "Trace", given: Namespace, console: Console) -> None:
    """Print and write what is asked for; raises UsageError for what cannot be."""
    tell = console.say if given.json else console.print  # JSON stands alone
    if given.trace:
        for line in str(trace).splitlines():
            tell(line)
    for value in given.trace_values:
        name, _, path = value.partition("=")
        if path:
            _save(trace, name, Path(path), console)
        else:
            for line in _described(trace, name):
                tell(line)
    if given.trace_file is not None:
        try:
            trace.save(given.trace_file)
        except OSError as error:
            message = f"`{given.trace_file}` cannot be written: {error.strerror}"
            raise UsageError(message) from error
        console.say(f"{given.trace_file}: open it at https://ui.perfetto.dev")


def _described(trace: "Trace", name: str) -> list[str]:
    """Return a line a name, with kind and shape of its first value and how many there are."""
    names = trace.names if name == "*" else (name,)
    width = max(map(len, names), default=0)
    lines: list[str] = []
    for one in names:
        items = _found(trace, one)
        first = next(iter(items.values()), None)
        many = f" x {len(items)}" if len(items) > 1 else ""
        lines.append(f"{one:<{width}}  {_kind(first)}{many}")
    return lines


def _save(trace: "Trace", name: str, path: Path, console: Console) -> None:
    """Write a value; of several, those of one shape as one array, the indices first."""
    items = _found(trace, name)
    arrays = [np.asarray(value) for value in items.values()]
    if any(array.dtype.hasobject for array in arrays):
        raise UsageError(f"`{name}` is text or bytes, and no array")
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1:
        raise UsageError(
            f"`{name}` has items of different shapes: {', '.join(map(str, sorted(shapes)))}"
        )
    content = arrays[0] if list(items) == [()] else np.stack(arrays)
    try:
        with path.open("wb") as file:
            np.save(file, content, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error
    console.say(f"{path}: `{name}`, {_kind(content)}")


def _found(trace: "Trace", name: str) -> Mapping[tuple[int, ...], Any]:  # Any: what a step made
    from ..runtime.observe.trace import Items

    try:
        value = trace[name]
    except KeyError as error:
        raise UsageError(error.args[0]) from None
    return value if isinstance(value, Items) else {(): value}


def _kind(value: object) -> str:
    match value:
        case str() | bytes():
            return f"{type(value).__name__} of {len(value)}"
        case list():
            return f"list of {len(value)}"  # pyright: ignore[reportUnknownArgumentType] of any kind
        case None:
            return "nothing"
        case _:
            array = np.asarray(value)
            shape = ", ".join(map(str, array.shape))
            return f"{array.dtype}[{shape}]" if array.shape else f"{array.dtype} {array}"
