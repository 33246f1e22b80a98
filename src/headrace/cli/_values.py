"""`name=value` words to the values of inputs.

What a word means follows from what the input takes. Text and bytes stand as they are, `@file` is
what a file holds; everything else is JSON, `@file.json` or `@file.npy`. Where many are wanted, a
name may be given several times.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

from ..dsl.nearest import nearest
from .command import UsageError

Value: TypeAlias = Any  # Any: whatever the input's type allows; the runtime checks it


class Content(Enum):
    """What one element is."""

    TEXT = "text"
    BYTES = "bytes"
    NUMBER = "numbers"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an input takes; `many` when it is a list, a tensor, or has rows."""

    content: Content
    many: bool


def split(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each name in the order given."""
    found: dict[str, list[str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(
                f"`{word}` is no input", "write `name=value`, or `name=@file` for a file's content"
            )
        found.setdefault(name, []).append(value)
    return found


def read(given: Mapping[str, Sequence[str]], wanted: Mapping[str, Wanted]) -> dict[str, Value]:
    """Return the value of each input; raises UsageError for names and texts that do not fit."""
    return {name: _read(name, texts, _find(name, wanted)) for name, texts in given.items()}


def _find(name: str, wanted: Mapping[str, Wanted]) -> Wanted:
    if name not in wanted:
        near = nearest(name, wanted)
        known = ", ".join(f"`{one}`" for one in wanted)
        help = f"did you mean `{near}`?" if near else f"the inputs are {known}"
        raise UsageError(f"there is no input `{name}`", help)
    return wanted[name]


def _read(name: str, texts: Sequence[str], wanted: Wanted) -> Value:
    if len(texts) > 1 and not wanted.many:
        raise UsageError(f"`{name}` is given {len(texts)} times, and takes one value")
    values = [_one(name, text, wanted) for text in texts]
    if not wanted.many:
        return values[0]
    whole = wanted.content is Content.NUMBER or isinstance(values[0], list)
    return values[0] if len(values) == 1 and whole else values


def _one(name: str, text: str, wanted: Wanted) -> Value:
    if text.startswith("@"):
        return _file(name, Path(text[1:]), wanted.content)
    if wanted.content is Content.NUMBER:
        return _json(name, text)
    if text.startswith('"') or (wanted.many and text.startswith("[")):
        parsed = _json(name, text)
        return _encoded(parsed) if wanted.content is Content.BYTES else parsed
    return text.encode() if wanted.content is Content.BYTES else text


def _json(name: str, text: str) -> Value:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"`{name}` is not JSON: {error}", "numbers look like `0.5`, tensors like `[[1, 2]]`"
        ) from None


def _encoded(value: Value) -> Value:
    if isinstance(value, list):
        parts: list[Value] = value
        return [_encoded(part) for part in parts]
    return value.encode() if isinstance(value, str) else value


def _file(name: str, path: Path, content: Content) -> Value:
    try:
        if content is Content.BYTES:
            return path.read_bytes()
        if content is Content.TEXT:
            return path.read_text(encoding="utf-8")
        if path.suffix == ".npy":
            from ..stdlib.npy import read_npy

            return read_npy(path.read_bytes())
        if path.suffix == ".json":
            return _json(name, path.read_text(encoding="utf-8"))
    except OSError as error:
        near = _near(path)
        help = f"did you mean `@{near}`?" if near is not None else None
        raise UsageError(f"`{path}` cannot be read: {error.strerror}", help) from None
    except ValueError as error:
        raise UsageError(f"`{path}` does not hold what `{name}` takes: {error}") from None
    raise UsageError(f"`{name}` takes numbers: `@{path}` ends neither in .npy nor in .json")


def _near(path: Path) -> Path | None:
    if not path.parent.is_dir():
        return None
    near = nearest(path.name, (one.name for one in path.parent.iterdir()))
    return path.parent / near if near is not None else None
